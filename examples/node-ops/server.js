// A worker that renders slowly, for trying out and measuring what stands in front of it.
//
//   GET  /render    works for RENDER_MS, then "DONE\n"
//   POST /echo      reads the body, works, answers its SHA-256 in hex
//   GET  /big       works, then 1 MB; its SHA-256 is in `x-sha256`
//   GET  /infinite  never answers and blocks the process
//   GET  /health    200 "OK\n", 503 "NOPE\n" while it stops
//   GET  /stats     what happened in this process, as JSON
//
// `?ms=N` replaces RENDER_MS for one request. Work is done one request at a time (request_queue.js);
// health and stats answer beside it. Each answer says in headers which process gave it.
//
// Environment:
//   PORT | SPILLGATE_SOCKET   where to listen: 127.0.0.1:PORT (default 9002), or a Unix socket
//   SPILLGATE_WORKER_ID       name of this worker in answers (default: the process id)
//   RENDER_MS                 length of the work (200)
//   RENDER_MODE               spin: burn the processor; wait: let time pass (spin)
//   BOOT_MS                   burnt before listening, as a large application does (0)
//   OVERLAP_LOG               file that gets a line whenever a request comes while one is inside
//   HEARTBEAT_FD              descriptor that gets a dot every half second while the process is alive
//
// Ready means listening: who connects before is refused at once. SIGTERM: no new connections, the
// running requests end, then exit 0.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');

const { RequestQueue } = require('./request_queue.js');

const renderMs = Number(process.env.RENDER_MS ?? 200);
const spins = (process.env.RENDER_MODE ?? 'spin') === 'spin';
const workerId = process.env.SPILLGATE_WORKER_ID ?? String(process.pid);
const overlapLog = process.env.OVERLAP_LOG;
const bodySizeMax = 5 * 1024 * 1024;

const big = Buffer.alloc(1024 * 1024, 'spillgate ');
const bigHash = sha256(big);

const queue = new RequestQueue();
let served = 0;
let stopping = false;

function sha256(bytes) {
  return crypto.createHash('sha256').update(bytes).digest('hex');
}

function spin(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

async function work(ms) {
  if (spins) return spin(ms);
  await new Promise((resolve) => setTimeout(resolve, ms));
}

// Blocks the process for good; without burning a core where workers only wait.
function hang() {
  while (spins);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

// The whole body, or an error with the status to answer.
async function readBody(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > bodySizeMax) throw Object.assign(new Error('body too large'), { status: 413 });
    parts.push(part);
  }
  return Buffer.concat(parts);
}

// Each returns [status, body, headers].
const routes = {
  'GET /render': async (request, ms) => {
    await work(ms);
    return [200, 'DONE\n', {}];
  },
  'POST /echo': async (request, ms) => {
    const body = await readBody(request);
    await work(ms);
    return [200, sha256(body), {}];
  },
  'GET /big': async (request, ms) => {
    await work(ms);
    return [200, big, { 'x-sha256': bigHash, 'content-type': 'application/octet-stream' }];
  },
  'GET /infinite': async () => hang(),
};

const besideWork = {
  'GET /health': () => (stopping ? [503, 'NOPE\n', {}] : [200, 'OK\n', {}]),
  'GET /stats': () => {
    const stats = { worker: workerId, pid: process.pid, served, inside_max: queue.insideMax };
    return [200, JSON.stringify(stats) + '\n', { 'content-type': 'application/json' }];
  },
};

function answer(response, [status, body, headers]) {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'x-worker': workerId,
    'x-pid': process.pid,
    'x-inside-max': queue.insideMax,
    ...headers,
  });
  response.end(body);
}

function notifyOverlap() {
  if (!overlapLog || queue.inside === 0) return;
  const line = { worker: workerId, pid: process.pid, inside: queue.inside + 1 };
  fs.appendFileSync(overlapLog, JSON.stringify(line) + '\n');
}

async function serve(request, response) {
  const url = new URL(request.url, 'http://worker');
  const name = `${request.method} ${url.pathname}`;
  if (besideWork[name]) return answer(response, besideWork[name]());
  const route = routes[name];
  if (!route) return answer(response, [404, 'no such page\n', {}]);
  const ms = Number(url.searchParams.get('ms') ?? renderMs);
  notifyOverlap();
  try {
    const reply = await queue.run(() => route(request, ms));
    served += 1;
    answer(response, reply);
  } catch (error) {
    // A client that left in the middle of its body gets no answer; all else is told.
    if (!request.destroyed || error.status) answer(response, [error.status ?? 500, `${error.message}\n`, {}]);
  }
}

spin(Number(process.env.BOOT_MS ?? 0));

const server = http.createServer(serve);
const { SPILLGATE_SOCKET: socket, PORT: port = 9002 } = process.env;
server.listen(socket ? { path: socket } : { host: '127.0.0.1', port: Number(port) });

process.on('SIGTERM', () => {
  stopping = true;
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});

if (process.env.HEARTBEAT_FD) {
  const beat = () => fs.write(Number(process.env.HEARTBEAT_FD), '.', () => {});
  setInterval(beat, 500).unref();
}
