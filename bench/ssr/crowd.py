"""The slow uploads of one round, in a process of their own: `crowd.py PORT SEED`.

Prints how many were answered rightly, and why the others were not, as JSON.
"""
import asyncio
import json
import sys

import load

COUNT, SECONDS = 500, (5, 20)

if __name__ == "__main__":
    port, seed = int(sys.argv[1]), int(sys.argv[2])
    result = asyncio.run(load.slow_uploads(port, COUNT, seed, SECONDS))
    print(json.dumps({"good": len(result.times), "reasons": result.reasons}))
