"""The slow uploads of one round, in a process of their own: `crowd.py PORT SEED`."""
import asyncio
import sys

import load

COUNT, SECONDS = 500, (5, 20)

if __name__ == "__main__":
    port, seed = int(sys.argv[1]), int(sys.argv[2])
    result = asyncio.run(load.slow_uploads(port, COUNT, seed, SECONDS))
    failed = ", ".join(f"{count} {reason}" for reason, count in sorted(result.reasons.items()))
    print(f"{len(result.times)} of {COUNT} uploads good" + (f" ({failed})" if failed else ""))
