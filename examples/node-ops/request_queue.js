// One job at a time inside this process, first come first served.
//
// The gate in front already sends one exchange at a time to a worker; this queue makes it certain,
// whatever reaches the process by other ways, so that global state is safe during a job. Between
// two jobs nothing runs: `afterRequest` is the moment to reset such state.
'use strict';

const { EventEmitter } = require('node:events');

// Events: `queueLength` (jobs waiting), `beforeRequest`, `afterRequest`.
class RequestQueue extends EventEmitter {
  constructor() {
    super();
    this.waiting = [];
    this.busy = false;
    // Jobs inside the process now, waiting ones included, and the most there ever were. A gate that
    // keeps its promise leaves the second at 1.
    this.inside = 0;
    this.insideMax = 0;
  }

  // Runs `job`, an async function, when all earlier ones have ended. The next one starts when it has
  // settled, also where it has failed: a job that throws does not stop the queue.
  run(job) {
    this.inside += 1;
    this.insideMax = Math.max(this.insideMax, this.inside);
    return new Promise((resolve, reject) => {
      this.waiting.push({ job, resolve, reject });
      this.emit('queueLength', this.waiting.length);
      this.advance();
    });
  }

  async advance() {
    if (this.busy || this.waiting.length === 0) return;
    this.busy = true;
    const { job, resolve, reject } = this.waiting.shift();
    this.emit('queueLength', this.waiting.length);
    this.emit('beforeRequest');
    try {
      resolve(await job());
    } catch (error) {
      reject(error);
    }
    this.inside -= 1;
    this.busy = false;
    this.emit('afterRequest');
    this.advance();
  }
}

module.exports = { RequestQueue };
