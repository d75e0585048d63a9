'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const largest = 2 ** 20; // characters of a manifest
  const shown = 500_000; // characters of an output
  const settings = document.querySelector('form');
  const manifest = document.querySelector('[name=manifest]');
  const earlier = document.querySelector('[name=earlier]');
  const status = document.getElementById('status');
  const out = document.getElementById('out');
  const verdicts = { 0: 'exit status 0', 1: 'exit status 1: rejected', 2: 'exit status 2: no answer', 3: 'exit status 3: needs a restart',
    4: 'exit status 4: breaks hardware' };
  let command = 'validate';

  // The program and its worker.

  // compiled returns the program. It is compressed, unless the server has sent it with 'Content-Encoding: gzip', which the browser has undone.
  async function compiled() {
    const answer = await fetch(data.program);
    if (!answer.ok) throw new Error(`${data.program}: ${answer.status}`);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return WebAssembly.compile(bytes);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return WebAssembly.compileStreaming(new Response(stream, { headers: { 'Content-Type': 'application/wasm' } }));
  }

  const program = compiled();
  const source = URL.createObjectURL(new Blob([data.worker], { type: 'text/javascript' }));
  let worker, timer, running = 0, wanted = false, idle = false;

  // start starts a worker, which is ready when it has answered once: the first run prepares what all runs share, and takes longer.
  async function start() {
    idle = false;
    worker = new Worker(source);
    const started = worker;
    worker.onerror = (event) => { event.preventDefault(); end(`The program has failed: ${event.message}`); };
    worker.onmessage = ({ data: answer }) => {
      if (answer.ready) {
        started.postMessage({ id: 0, args: argumentsOf('validate'), files: filesOf(data.example, '', data.catalog) });
      } else if (answer.id === 0) {
        idle = true;
        if (wanted) run(); else status.textContent = '';
      } else if (answer.id === running) {
        clearTimeout(timer);
        idle = true;
        show(answer);
        if (wanted) run();
      }
    };
    try { started.postMessage({ module: await program }); } catch (error) {
      status.textContent = `The program cannot be loaded: ${error.message}`;
    }
  }

  // end ends the worker, and starts another.
  function end(reason) {
    clearTimeout(timer);
    worker.terminate();
    out.replaceChildren();
    status.textContent = reason;
    start();
  }

  function argumentsOf(name, catalog = true, runtime = 'kubevirt') {
    return [name, ...(name === 'diff' ? ['earlier.yaml', 'vm.yaml'] : ['-f', 'vm.yaml']),
      ...(catalog ? ['--catalog', 'catalog.yaml'] : []), '--runtime', runtime];
  }

  function filesOf(now, before, catalog) { return { 'vm.yaml': now, 'earlier.yaml': before, ...(catalog ? { 'catalog.yaml': catalog } : {}) }; }

  function run() {
    if (manifest.value.length > largest || earlier.value.length > largest) {
      wanted = false;
      out.replaceChildren();
      status.textContent = `The manifest is larger than ${largest} characters.`;
      return;
    }
    wanted = !idle;
    if (!idle) return;
    idle = false;
    running++;
    status.textContent = 'Running.';
    timer = setTimeout(() => end(`The run has been ended after ${data.longest / 1000} seconds.`), data.longest);
    const catalog = settings.elements.catalog.value ? data.catalog : '';
    worker.postMessage({ id: running, args: argumentsOf(command, catalog !== '', settings.elements.runtime.value),
      files: filesOf(manifest.value, earlier.value, catalog) });
  }

  // show shows an answer. Everything in it may be what a stranger wrote into a permalink: it is only set as text.
  function show(answer) {
    const cut = (text) => text.length > shown ? text.slice(0, shown) + `\n... ${text.length - shown} more characters` : text;
    const errors = document.createElement('span');
    errors.className = 'error';
    errors.textContent = cut(answer.errors);
    out.replaceChildren(errors, cut(answer.out));
    status.textContent = verdicts[answer.status];
  }

  // The state, and its permalink: '#' and the compressed state. Browsers do not send what follows '#' to a server.

  function choose(name) {
    command = name;
    for (const button of document.querySelectorAll('[data-command]')) button.setAttribute('aria-pressed', String(button.dataset.command === name));
    document.getElementById('earlier').hidden = name !== 'diff';
  }

  async function link() {
    const state = JSON.stringify([command, settings.elements.catalog.value, settings.elements.runtime.value, manifest.value, earlier.value]);
    const stream = new Blob([state]).stream().pipeThrough(new CompressionStream('deflate-raw'));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    let text = '';
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  }

  // opened reads the state of a link. Its author is a stranger: it is read up to a size, and each part must be a text.
  async function opened(hash) {
    const bytes = Uint8Array.from(atob(hash.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += decoder.decode(value, { stream: true });
      if (text.length > 4 * largest) throw new Error('it is too large');
    }
    const parts = JSON.parse(text);
    if (!Array.isArray(parts) || parts.length !== 5 || parts.some((part) => typeof part !== 'string')) throw new Error('it has another form');
    return parts;
  }

  async function load() {
    choose('validate');
    manifest.value = data.example;
    earlier.value = data.example;
    if (location.hash.length > 1) {
      try {
        const [name, catalog, runtime, now, before] = await opened(location.hash.slice(1));
        choose(document.querySelector(`[data-command="${CSS.escape(name)}"]`) ? name : 'validate');
        settings.elements.catalog.value = catalog === 'yes' ? 'yes' : '';
        settings.elements.runtime.value = ['pod', 'node'].includes(runtime) ? runtime : 'kubevirt';
        manifest.value = now;
        earlier.value = before;
      } catch (error) {
        status.textContent = `The link cannot be read: ${error.message}`;
        return;
      }
    }
    run();
  }

  let typing;
  document.addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(run, 300); });
  settings.addEventListener('submit', (event) => event.preventDefault());
  document.querySelector('nav').addEventListener('click', (event) => {
    if (!event.target.dataset.command) return;
    choose(event.target.dataset.command);
    run();
  });
  document.getElementById('link').addEventListener('click', async () => {
    history.replaceState(null, '', '#' + await link());
    try {
      await navigator.clipboard.writeText(location.href);
      status.textContent = 'The link is copied.';
    } catch { status.textContent = 'The address of this page is the link.'; }
  });
  window.addEventListener('hashchange', load);
  start();
  load();
})();
