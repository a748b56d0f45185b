// What the queue promises: one at a time, in order, and no job can stop it.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { RequestQueue } = require('./request_queue.js');

test('jobs run one at a time, first come first served', async () => {
  const queue = new RequestQueue();
  const story = [];
  const job = (name) => async () => {
    story.push(`begin ${name}`);
    await Promise.resolve();
    story.push(`end ${name}`);
    return name;
  };
  const names = await Promise.all(['a', 'b', 'c'].map((name) => queue.run(job(name))));
  assert.deepStrictEqual(names, ['a', 'b', 'c']);
  assert.deepStrictEqual(story, ['begin a', 'end a', 'begin b', 'end b', 'begin c', 'end c']);
  assert.strictEqual(queue.insideMax, 3);
  assert.strictEqual(queue.inside, 0);
});

test('a job that fails does not stop the queue', async () => {
  const queue = new RequestQueue();
  const failing = queue.run(async () => {
    throw new Error('broken');
  });
  const next = queue.run(async () => 'served');
  await assert.rejects(failing, /broken/);
  assert.strictEqual(await next, 'served');
});

test('before and after each job the moment is told', async () => {
  const queue = new RequestQueue();
  const told = [];
  for (const event of ['queueLength', 'beforeRequest', 'afterRequest']) {
    queue.on(event, (...numbers) => told.push([event, ...numbers].join(' ')));
  }
  await queue.run(async () => {});
  assert.deepStrictEqual(told, ['queueLength 1', 'queueLength 0', 'beforeRequest', 'afterRequest']);
});
