'use strict';
// What the pages of this folder share: a question from the test, and an answer to it.

// answer calls a function with the question, and posts what it returns, or why it has failed.
async function answer(how) {
  let result;
  try { result = await how(await (await fetch('question')).json()); } catch (error) { result = { failed: `${error} ${error.stack}` }; }
  await fetch('answer', { method: 'POST', body: JSON.stringify(result) });
}

// until waits until a function returns something.
async function until(what, condition, patience = 60000) {
  const end = Date.now() + patience;
  for (;;) {
    const found = condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// open opens a page in a frame.
async function open(address) {
  const frame = document.createElement('iframe');
  frame.style = 'width: 1280px; height: 900px';
  frame.src = address;
  document.body.append(frame);
  await new Promise((done) => { frame.onload = done; });
  return frame;
}
