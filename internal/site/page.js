'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const kinds = { instancetypes: 'preferences', preferences: 'instancetypes' };
  const byID = new Map();
  for (const kind of Object.keys(kinds)) {
    data[kind] = data[kind] || [];
    data[kind].forEach((object, index) => {
      object.fields = (data.fields[object.id] || []).map(([path, value]) => ({ path: data.texts[path], value }));
      object.description = data.texts[data.descriptions[object.id]];
      byID.set(object.id, { kind, index, object });
    });
  }
  data.instancetypes.forEach((object, index) => {
    for (const i of object.fits || []) {
      const partner = data.preferences[i];
      (partner.fits = partner.fits || []).push(index);
    }
  });
  const gib = 2 ** 30;
  const dialog = document.getElementById('details');
  const heading = document.getElementById('details-title');
  const body = document.getElementById('details-body');

  // make returns an element. Text is only ever set as text: the catalog's author is a stranger.
  function make(name, text, attributes) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    return element;
  }

  // The hash is the state: '#KIND?filters', '#ID' of an object, or '#compare/ID,ID'.
  const views = {};
  let current = 'instancetypes';

  for (const [kind, other] of Object.entries(kinds)) {
    const section = document.getElementById(kind);
    const view = views[kind] = {
      section, kind, other,
      form: section.querySelector('form'), count: section.querySelector('output'), compare: section.querySelector('.compare'),
      rows: [...section.querySelectorAll('tbody tr[data-i]')], chosen: new Set(), sorted: '',
      all: [...section.querySelectorAll('tbody tr')], empty: section.querySelector('.empty'), list: section.querySelector('table'),
    };
    view.form.hidden = section.querySelector('.bar').hidden = false;
    view.form.addEventListener('input', () => { filter(view); remember(view); });
    view.form.addEventListener('reset', () => setTimeout(() => { filter(view); remember(view); }));
    view.form.addEventListener('submit', (event) => event.preventDefault());
    view.empty.querySelector('button').addEventListener('click', () => view.form.reset());
    for (const row of view.rows) {
      const box = row.querySelector('input');
      box.hidden = false;
      box.addEventListener('change', () => {
        view.chosen[box.checked ? 'add' : 'delete'](Number(row.dataset.i));
        view.compare.disabled = view.chosen.size < 2;
        view.compare.textContent = view.chosen.size ? `Compare ${view.chosen.size}` : 'Compare';
      });
    }
    view.compare.addEventListener('click', () => {
      location.hash = 'compare/' + [...view.chosen].map((i) => data[kind][i].id).join(',');
    });
    for (const head of section.querySelectorAll('th[data-sort]')) {
      const button = make('button', head.textContent, { type: 'button' });
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const key = head.dataset.sort;
        sort(view, view.sorted === key ? '-' + key : key);
        remember(view);
      });
    }
  }

  function number(form, name) {
    const text = form.elements[name] ? form.elements[name].value : '';
    return text === '' || Number.isNaN(Number(text)) ? null : Number(text);
  }

  function matches(view, object) {
    const form = view.form;
    const value = (name) => (form.elements[name] ? form.elements[name].value : '');
    const words = value('q').toLowerCase().split(/\s+/).filter(Boolean);
    const text = [object.name, object.namespace, object.display, object.description, object.class, ...(object.features || [])].join(' ').toLowerCase();
    const within = (amount, least, most) => (least === null || amount >= least) && (most === null || amount <= most);
    if (!words.every((word) => text.includes(word))) return false;
    if (!within(object.cpus || 0, number(form, 'cpu'), number(form, 'maxcpu'))) return false;
    if (!within((object.bytes || 0) / gib, number(form, 'mem'), number(form, 'maxmem'))) return false;
    if (!within(object.gpus || 0, number(form, 'gpus'), null)) return false;
    if (value('class') && object.class !== value('class')) return false;
    if (value('arch') && object.architectures && !object.architectures.includes(value('arch'))) return false;
    if (value('life') && object.lifecycle !== value('life')) return false;
    const partner = byID.get(value('fits'));
    return !partner || (object.fits || []).includes(partner.index);
  }

  function filter(view) {
    let shown = 0;
    for (const row of view.rows) {
      row.hidden = !matches(view, data[view.kind][row.dataset.i]);
      if (!row.hidden) shown++;
    }
    // The title of a group is shown with its first row.
    let title = null;
    for (const row of view.all) {
      if (row.className === 'group') {
        title = row;
        title.hidden = true;
      } else if (title && !row.hidden && view.sorted === '') {
        title.hidden = false;
        title = null;
      }
    }
    view.count.textContent = `${shown} of ${view.rows.length}`;
    view.list.hidden = shown === 0;
    view.empty.hidden = shown > 0;
  }

  // sort orders the rows by a column: 'cpus', or '-cpus' for the greatest first. Without a column they have the order of the catalog, with groups.
  function sort(view, column) {
    const name = column.replace('-', '');
    const head = [...view.section.querySelectorAll('th[data-sort]')].find((one) => one.dataset.sort === name);
    view.sorted = head ? column : '';
    for (const other of view.section.querySelectorAll('th[aria-sort]')) other.removeAttribute('aria-sort');
    const tbody = view.section.querySelector('tbody');
    tbody.append(...view.all);
    if (head) {
      const rising = column === name;
      head.setAttribute('aria-sort', rising ? 'ascending' : 'descending');
      const key = (row) => data[view.kind][row.dataset.i][name];
      const rows = [...view.rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = typeof x === 'number' || typeof y === 'number'
          ? (x || 0) - (y || 0)
          : String(x || '').localeCompare(String(y || ''), 'en', { numeric: true });
        return rising ? order : -order;
      });
      tbody.append(...rows);
    }
    filter(view);
  }

  function hashOf(view) {
    const query = new URLSearchParams();
    for (const field of view.form.elements) if (field.name && field.value) query.set(field.name, field.value);
    if (view.sorted) query.set('sort', view.sorted);
    const text = query.toString();
    return '#' + view.kind + (text ? '?' + text : '');
  }

  function remember(view) {
    history.replaceState(null, '', hashOf(view));
  }

  function show(kind) {
    current = kind;
    for (const view of Object.values(views)) view.section.hidden = view.kind !== kind;
    for (const link of document.querySelectorAll('[data-tab]')) {
      if (link.dataset.tab === kind) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
  }

  function copyable(text, label) {
    const block = make('div', undefined, { class: 'copy' });
    const pre = make('pre', text, { tabindex: '0' });
    const button = make('button', 'Copy', { type: 'button', 'aria-label': 'Copy ' + label });
    const said = make('span', '', { role: 'status' });
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(text);
        said.textContent = ' copied';
      } catch {
        // Without permission to write the clipboard, the text is selected for the reader's own keys.
        getSelection().selectAllChildren(pre);
        said.textContent = ' selected: copy it with Ctrl+C';
      }
    });
    block.append(button, said, pre);
    return block;
  }

  function table(heads, rows) {
    const out = make('table');
    const head = out.createTHead().insertRow();
    for (const text of heads) head.append(make('th', text, { scope: 'col' }));
    const tbody = out.createTBody();
    for (const { cells, differs } of rows) {
      const row = tbody.insertRow();
      if (differs) row.className = 'differs';
      cells.forEach((text, i) => row.append(make(i ? 'td' : 'th', text, i ? {} : { scope: 'row' })));
      if (titles[cells[0]]) row.firstChild.replaceChildren(titles[cells[0]], make('br'), make('span', cells[0], { class: 'path' }));
    }
    const scroll = make('div', undefined, { class: 'scroll', tabindex: '0' });
    scroll.append(out);
    return scroll;
  }

  // plain returns the value of a field as people write it: text without the quotes of JSON.
  function plain(value) {
    return value.startsWith('"') ? JSON.parse(value) : value;
  }

  // What people call the fields that most instancetypes and preferences have.
  const titles = {
    'spec.cpu.guest': 'vCPUs', 'spec.memory.guest': 'Memory', 'spec.memory.hugepages.pageSize': 'Huge pages',
    'spec.cpu.dedicatedCPUPlacement': 'Dedicated CPUs', 'spec.cpu.isolateEmulatorThread': 'Thread of the emulator apart',
    'spec.cpu.model': 'CPU model', 'spec.ioThreadsPolicy': 'IO threads', 'spec.requirements.cpu.guest': 'Requires vCPUs',
    'spec.requirements.memory.guest': 'Requires memory', 'spec.devices.preferredDiskBus': 'Bus of disks',
    'spec.devices.preferredInterfaceModel': 'Model of interfaces', 'spec.machine.preferredMachineType': 'Machine',
  };

  // described returns a description with its paragraphs, lists and emphasis. Its author writes Markdown.
  function described(text) {
    const block = make('div');
    const inline = (element, line) => {
      line.split(/(\*\*?[^*\s][^*]*\*\*?)/).forEach((part, i) => {
        if (part !== '') element.append(i % 2 ? make('em', part.replace(/\*/g, '')) : part);
      });
      return element;
    };
    // A blank line ends a paragraph or a list. Other lines belong to what was begun.
    let list = null;
    let open = null;
    for (const line of text.split('\n').map((one) => one.trim())) {
      const item = /^[-*] +(.*)/.exec(line);
      if (line === '') {
        list = open = null;
      } else if (item) {
        if (!list) block.append(list = make('ul'));
        list.append(open = inline(make('li'), item[1]));
      } else if (open) {
        inline(open, ' ' + line);
      } else {
        block.append(open = inline(make('p'), line));
      }
    }
    return block;
  }

  // partners returns links to objects, grouped by their operating system or class.
  function partners(found) {
    const block = make('div');
    const groups = new Map();
    for (const one of found) groups.set(one.class || '', [...(groups.get(one.class || '') || []), one]);
    for (const [name, members] of groups) {
      if (groups.size > 1) block.append(make('h4', name || 'other'));
      const list = make('ul', undefined, { class: 'fits' });
      for (const one of members) {
        const item = make('li');
        item.append(make('a', one.name, { href: '#' + one.id }));
        list.append(item);
      }
      block.append(list);
    }
    return block;
  }

  // partnerOf returns the object that the command of another one names: for a preference the instancetype that asks the least of a cluster (fewest
  // features and GPUs, then vCPUs, then memory), for an instancetype the first preference that fits. Nothing deprecated, where something else fits.
  function partnerOf(kind, object) {
    const found = (object.fits || []).map((i) => data[kinds[kind]][i]);
    const demands = (o) => [o.lifecycle === 'active' ? 0 : 1, (o.features || []).length + (o.gpus || 0), o.cpus || 0, o.bytes || 0];
    if (kind === 'instancetypes') return found.find((o) => o.lifecycle === 'active') || found[0];
    return found.reduce((least, o) => {
      const [a, b] = [demands(o), least ? demands(least) : []];
      const at = a.findIndex((value, i) => value !== b[i]);
      return !least || (at >= 0 && a[at] < b[at]) ? o : least;
    }, undefined);
  }

  // command has a disk, since a VM without one boots nothing: the user names a claim of their own.
  function command(kind, object) {
    const partner = partnerOf(kind, object);
    const flags = { instancetypes: 'instancetype', preferences: 'preference' };
    const parts = [`--${flags[kind]} ${object.name}`];
    if (partner) parts.push(`--${flags[kinds[kind]]} ${partner.name}`);
    return 'kubectl kiln create vm --name my-vm ' + parts.sort().join(' ') + ' --volume-pvc src:my-disk';
  }

  function details({ kind, object }) {
    heading.textContent = object.name;
    const fits = (object.fits || []).map((i) => data[kinds[kind]][i]);
    const parts = [];
    if (object.display) parts.push(make('p', object.display));
    if (object.description) parts.push(described(object.description));
    if (object.lifecycle !== 'active') {
      const text = object.lifecycle === 'obsolete' ? 'Obsolete: new VMs are refused.' : 'Deprecated: new VMs bring a warning.';
      parts.push(make('p', text + (object.replacedBy ? ` Use '${object.replacedBy}'.` : '')));
    }
    if (object.refused) parts.push(make('p', `Runtime '${data.runtime}' starts no guest with it: ${object.refused}.`));
    parts.push(
      make('h3', 'Create a VM'), copyable(command(kind, object), 'command'),
      make('h3', kind === 'instancetypes' ? 'Preferences that fit' : 'Instancetypes that fit'),
      fits.length ? partners(fits) : make('p', 'none of this catalog'),
      make('h3', 'Fields'), table(['Field', 'Value'], object.fields.map((f) => ({ cells: [f.path, plain(f.value)] }))),
      make('h3', 'Manifest'), copyable(object.manifest, 'manifest'),
    );
    body.replaceChildren(...parts);
    open();
  }

  function compare(found) {
    heading.textContent = 'Comparison';
    const values = found.map(({ object }) => new Map(object.fields.map((f) => [f.path, f.value])));
    const paths = [...new Set(values.flatMap((v) => [...v.keys()]))];
    const rows = paths.map((path) => {
      const cells = values.map((v) => (v.has(path) ? plain(v.get(path)) : '—'));
      return { cells: [path, ...cells], differs: new Set(cells).size > 1 };
    });
    const list = table(['Field', ...found.map(({ object }) => object.name)], rows);
    const only = make('input', undefined, { type: 'checkbox' });
    const label = make('label');
    label.append(only, ' only differences');
    only.addEventListener('change', () => {
      for (const row of list.querySelectorAll('tbody tr')) row.hidden = only.checked && !row.classList.contains('differs');
    });
    body.replaceChildren(label, list);
    open();
  }

  // shown is the hash of what the dialog shows. The dialog's 'close' comes later than its closing: a link may have been followed since, and the dialog may be
  // open again.
  let shown = '';
  function open() {
    shown = location.hash;
    // The heading has the focus, not the button: the Enter that followed a link would press it.
    if (!dialog.open) dialog.showModal();
    heading.focus();
    dialog.scrollTop = 0;
  }
  dialog.addEventListener('close', () => {
    if (!dialog.open && location.hash === shown) location.hash = hashOf(views[current]);
  });

  function route() {
    let hash = '';
    try {
      hash = decodeURIComponent(location.hash.slice(1).split('?')[0]);
    } catch {
      hash = ''; // a hash that somebody mistyped
    }
    const object = byID.get(hash);
    if (object) {
      show(object.kind);
      details(object);
      return;
    }
    if (hash.startsWith('compare/')) {
      const found = hash.slice('compare/'.length).split(',').map((id) => byID.get(id)).filter(Boolean).slice(0, 8);
      if (found.length) {
        show(found[0].kind);
        compare(found);
        return;
      }
    }
    const view = views[hash] || views[current];
    if (views[hash]) {
      const query = new URLSearchParams(location.hash.split('?')[1] || '');
      for (const field of view.form.elements) if (field.name) field.value = query.get(field.name) || '';
      const more = view.form.querySelector('details');
      more.open = more.open || [...more.querySelectorAll('[name]')].some((field) => field.value);
      sort(view, query.get('sort') || '');
    }
    show(view.kind);
    filter(view);
    if (dialog.open) dialog.close();
  }

  const theme = document.getElementById('theme');
  const dark = () => (document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches);
  const label = () => { theme.textContent = dark() ? 'Light' : 'Dark'; };
  theme.hidden = false;
  theme.addEventListener('click', () => { document.documentElement.dataset.theme = dark() ? 'light' : 'dark'; label(); });
  label();

  for (const view of Object.values(views)) filter(view);
  addEventListener('hashchange', route);
  route();
})();
