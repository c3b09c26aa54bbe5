// Runs the model in a thread of its own, so that the page can react while it computes.

import { answer } from "./answers.js";

const waiting = new Map(); // the newest request of each view

onmessage = async ({ data }) => {
  const older = waiting.get(data.view);
  if (older) postMessage({ number: older.number, answer: { problem: "A newer request has replaced this one." } });
  waiting.set(data.view, data);
  await new Promise((done) => setTimeout(done)); // let newer requests arrive
  if (waiting.get(data.view) !== data) return;
  waiting.delete(data.view);
  postMessage({ number: data.number, answer: await answer(data.view, data.body) });
};
