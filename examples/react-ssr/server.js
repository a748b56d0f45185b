// A React application rendered on the server, as a worker behind Spillgate.
//
//   GET  /            the page in one piece (renderToString)
//   GET  /stream      the page as it is made (renderToPipeableStream)
//   POST /echo        the SHA-256 of the body, in hex
//   GET  /health      "OK\n"
//
// `?seed=N` chooses the page. Each page takes some 20 to 50 ms of processor time, so one process
// answers 20 to 50 requests a second, one after the other.
//
// Environment:
//   PORT | SPILLGATE_SOCKET   where to listen: 127.0.0.1:PORT (default 9002), or a Unix socket
//   SPILLGATE_WORKER_ID       name of this worker in answers (default: the process id)
//   PLACES                    how many places the page shows (800)
//
// Ready means listening. The systemd protocol (READY=1) needs a datagram socket, which Node.js has
// not; Spillgate then takes the first connect that this process accepts for its word. SIGTERM: no
// new connections, running requests end, exit 0.
'use strict';

process.env.NODE_ENV ??= 'production';

const crypto = require('node:crypto');
const http = require('node:http');
const { createElement } = require('react');
const { renderToPipeableStream, renderToString } = require('react-dom/server');

const { CITIES, Page } = require('./page.js');

const workerId = process.env.SPILLGATE_WORKER_ID ?? String(process.pid);
const count = Number(process.env.PLACES ?? 800);
const html = { 'content-type': 'text/html; charset=utf-8' };

// Stands for a database: what others looked at, after `ms`.
async function recentAfter(ms) {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return CITIES;
}

function page(url, recent) {
  return createElement(Page, { seed: Number(url.searchParams.get('seed') ?? 1), count, recent });
}

function answer(response, status, body, headers = { 'content-type': 'text/plain; charset=utf-8' }) {
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

function answerWhole(request, response, url) {
  answer(response, 200, `<!DOCTYPE html>${renderToString(page(url, CITIES))}`, html);
}

// The head goes out when the shell of the page is ready; a failure before that is still a 500.
function answerStreamed(request, response, url) {
  const { pipe } = renderToPipeableStream(page(url, recentAfter(30)), {
    onShellReady() {
      response.writeHead(200, html);
      pipe(response);
    },
    onShellError(error) {
      answer(response, 500, `${error.message}\n`);
    },
  });
}

async function answerHash(request, response) {
  const hash = crypto.createHash('sha256');
  for await (const part of request) hash.update(part);
  answer(response, 200, hash.digest('hex'));
}

const routes = {
  'GET /': answerWhole,
  'GET /stream': answerStreamed,
  'GET /health': (request, response) => answer(response, 200, 'OK\n'),
  'POST /echo': answerHash,
};

async function serve(request, response) {
  const url = new URL(request.url, 'http://worker');
  const route = routes[`${request.method} ${url.pathname}`];
  response.setHeader('x-worker', workerId);
  try {
    if (!route) return answer(response, 404, 'no such page\n');
    await route(request, response, url);
  } catch (error) {
    if (!response.headersSent) answer(response, 500, `${error.message}\n`);
    else response.destroy(error);
  }
}

const server = http.createServer(serve);
const { SPILLGATE_SOCKET: socket, PORT: port = 9002 } = process.env;
server.listen(socket ? { path: socket } : { host: '127.0.0.1', port: Number(port) });

process.on('SIGTERM', () => {
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
