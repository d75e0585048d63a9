
// What follows runs after Go's wasm_exec.js in the worker. Go's package os calls the functions of globalThis.fs as those of Node's module 'fs'. Here the files
// are those of one run, in memory, and nothing can be written.
(() => {
  let files = new Map();
  let streams = new Map(); // open files by their number
  let next = 3;

  const clean = (path) => '/' + path.split('/').filter((part) => part !== '' && part !== '.').join('/');
  const failure = (code) => Object.assign(new Error(code), { code });
  const isFolder = (path) => path === '/' || [...files.keys()].some((name) => name.startsWith(path + '/'));

  function status(path) {
    const content = files.get(path);
    if (content === undefined && !isFolder(path)) throw failure('ENOENT');
    const folder = content === undefined;
    const size = folder ? 0 : content.length;
    return { isDirectory: () => folder, mode: folder ? 0o40755 : 0o100644, size, dev: 0, ino: 0, nlink: 1, uid: 0, gid: 0, rdev: 0, blksize: 4096,
      blocks: Math.ceil(size / 512), atimeMs: 0, mtimeMs: 0, ctimeMs: 0 };
  }

  // opened returns what is open by a number.
  function opened(fd) {
    const stream = streams.get(fd);
    if (!stream) throw failure('EBADF');
    return stream;
  }

  const operations = {
    open(path, flags) {
      if (flags & 3) throw failure('EROFS');
      path = clean(path);
      status(path);
      streams.set(next, { path, at: 0 });
      return next++;
    },
    close(fd) { opened(fd); streams.delete(fd); },
    stat: (path) => status(clean(path)),
    lstat: (path) => status(clean(path)),
    fstat: (fd) => status(opened(fd).path),
    read(fd, buffer, offset, length, position) {
      if (fd === 0) return 0;
      const stream = opened(fd);
      const content = files.get(stream.path);
      if (!content) throw failure('EISDIR');
      const from = position ?? stream.at;
      const part = content.subarray(from, from + length);
      buffer.set(part, offset);
      if (position === null || position === undefined) stream.at += part.length;
      return part.length;
    },
    readdir(path) {
      path = clean(path);
      const prefix = path === '/' ? '/' : path + '/';
      return [...new Set([...files.keys()].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length).split('/')[0]))];
    },
    write: (fd, buffer, offset, length) => length, // the commands write to their caller; what the runtime of Go says at its end is nobody's
    fsync() {},
    readlink() { throw failure('EINVAL'); }
  };
  const fs = { constants: { O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_TRUNC: 512, O_APPEND: 1024, O_EXCL: 128, O_DIRECTORY: 65536 },
    writeSync: (fd, buffer) => buffer.length };
  for (const name of ['chmod', 'chown', 'fchmod', 'fchown', 'ftruncate', 'lchown', 'link', 'mkdir', 'rename', 'rmdir', 'symlink', 'truncate', 'unlink',
    'utimes']) {
    fs[name] = (...args) => args.at(-1)(failure('EROFS'));
  }
  for (const [name, operation] of Object.entries(operations)) {
    fs[name] = (...args) => {
      let result;
      try { result = operation(...args.slice(0, -1)); } catch (error) {
        if (!error.code) throw error;
        args.at(-1)(error);
        return;
      }
      args.at(-1)(null, result);
    };
  }
  globalThis.fs = fs;
  globalThis.process.cwd = () => '/';

  // A message with a module starts the program, and one with arguments and files runs a command.
  globalThis.onmessage = async ({ data }) => {
    if (data.module) {
      const go = new Go();
      go.run(await WebAssembly.instantiate(data.module, go.importObject)).then(() => { throw new Error('the program has ended'); });
      globalThis.postMessage({ ready: true });
      return;
    }
    const encoder = new TextEncoder();
    files = new Map(Object.entries(data.files).map(([path, text]) => [clean(path), encoder.encode(text)]));
    streams = new Map();
    globalThis.kiln(data.args, (out, errors, status) => globalThis.postMessage({ id: data.id, out, errors, status }));
  };
})();
