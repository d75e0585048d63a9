import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

// The pages of docs, and the pages outside of it that they link, stand in the site at their paths in the repository. 'make site' copies this folder to
// bin/site, so that no tool finds node_modules among the sources, and the pages to bin/site/pages, because a page imports Vue from a folder above it.
const repository = 'https://github.com/kilnvm/kiln/blob/main/'
const root = join(import.meta.dirname, '../../..')
const pages = /^(README|CONTRIBUTING|CHANGELOG|SECURITY|docs\/(?!site\/).*|manifests\/chart\/kiln\/README)\.md$/

const read = (page) => readFileSync(join(root, page), 'utf8')
const titleOf = (page) => read(page).match(/^# (.*)$/m)[1].replaceAll('`', '')

// docs/README.md lists every page by its kind, in the order in which they are read.
const sidebar = read('docs/README.md').split('\n## ').slice(1).map((section) => ({
  text: section.slice(0, section.indexOf('\n')),
  collapsed: false,
  items: [...section.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) => [...cell.matchAll(/\]\(([^)]+\.md)\)/g)])
    .map(([, link]) => posix.join('docs', link)).map((page) => ({ text: titleOf(page), link: '/' + asLink(page) }))
}))

// asLink returns the address of a page. A README is the index of its folder.
function asLink(page) { return page.replace(/README\.md$/, 'index.md').replace(/\.md$/, '').replace(/(^|\/)index$/, '$1') }

// relink replaces links that have a meaning only in the repository: to a README, and to files that are not pages. Files link to the repository.
// A link to a file that does not exist stays as it is, so that the build fails.
function relink(md) {
  md.core.ruler.push('relink', ({ tokens, env }) => {
    const page = env.relativePath.replace(/index\.md$/, 'README.md')
    for (const token of tokens.flatMap((block) => block.children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : '#'
      if (/^([a-z]+:|#|\/)/.test(href)) continue
      const [path, anchor] = href.split('#')
      const target = posix.join(posix.dirname(page), decodeURI(path)).replace(/\/$/, '')
      if (pages.test(target)) token.attrSet('href', href.replace('README.md', 'index.md'))
      else if (existsSync(join(root, target))) token.attrSet('href', repository + target + (anchor ? '#' + anchor : ''))
    }
  })
}

export default {
  base: './', // the site works below any path
  title: 'Kiln',
  description: 'Keeps disks and interfaces of a KubeVirt VM in place after most edits, and shows before kubectl apply which machine a manifest boots.',
  outDir: './dist',
  srcDir: './pages',
  rewrites: { 'README.md': 'index.md', ':path(.*)/README.md': ':path/index.md' },
  markdown: {
    // GitHub's addresses of headings, which the links of the pages use.
    anchor: { slugify: (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}\s_-]/gu, '').replace(/ /g, '-') },
    // Diagrams are shown as text. Only docs/project/architecture.md has any, and mermaid depends on 22 packages.
    languageAlias: { mermaid: 'text' },
    config(md) {
      relink(md)
      // VitePress compiles pages as templates of Vue, in which {{ begins an expression. No page means one.
      for (const kind of ['text', 'code_inline']) {
        const rule = md.renderer.rules[kind]
        md.renderer.rules[kind] = (...args) => rule(...args).replaceAll('{{', '&#123;&#123;')
      }
    }
  },
  themeConfig: {
    nav: [{ text: 'Try it in the browser', link: '/try/try.html', target: '_self' }, { text: 'Documentation', link: '/docs/' }],
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
    externalLinkIcon: true
  }
}
