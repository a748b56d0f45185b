"""The cases: what load comes, what befalls the workers, and which columns tell the tale.

A case is a list of points; a point is one run of workers, proxy and clients.
"""
from dataclasses import dataclass, field

LOADS = (0.5, 0.8, 1, 1.4, 2, 5, 10)  # multiples of the capacity
# Eight workers of 20 ms are asked 4,000 times a second at ten times their capacity. Where clients
# retry or four classes want enough requests each, the workers are slower, so that a small machine
# is busy with its crowd and not with the bench.
QUICK = {"workers": 8, "services": [[1, 20, "/"]], "slo_ms": 200}
SLOWER = {"workers": 8, "services": [[1, 50, "/"]], "slo_ms": 500}
PATIENT = {**QUICK, "slo_ms": 1000}
BIMODAL = {"workers": 8, "services": [[0.95, 10, "/fast"], [0.05, 200, "/slow"]], "slo_ms": 1000}
RETRIES = {"tries": 3, "backoff_ms": 50}
PLAIN = {"tries": 1, "backoff_ms": 50, "classes": [1], "tenants": [1], "warm_up_s": 1,
         "recover_from_s": None, "faults": [], "ideal": None}


@dataclass
class Point:
    """One run; `orders` are those in which the ideal tier is simulated beside."""
    name: str
    phases: list
    base: dict
    more: dict = field(default_factory=dict)
    orders: tuple = ("oldest",)

    @property
    def service_ms(self):
        services = self.base["services"]
        return sum(share * ms for share, ms, _ in services) / sum(one[0] for one in services)

    def plan(self, seed, seconds=None):
        """What the program is told; `seconds` shortens each phase."""
        phases = [[load, min(length, seconds or length)] for load, length in self.phases]
        plan = {**PLAIN, **self.base, **self.more, "phases": phases, "seed": seed,
                "capacity": self.base["workers"] * 1000 / self.service_ms}
        if seconds:
            plan["warm_up_s"] = min(plan["warm_up_s"], seconds / 4)
            scale = min(1, seconds / self.phases[0][1])
            plan["faults"] = [{**one, "at_s": one["at_s"] * scale, "for_s": one["for_s"] * scale}
                              for one in plan["faults"]]
        if "recover_from_s" in self.more:
            plan["recover_from_s"] = sum(length for _, length in phases[:-1])
        return plan


def rolling(what):
    """Each worker in turn, for 300 ms each."""
    return [{"at_s": 1 + 0.7 * one, "worker": one, "what": what, "for_s": 0.3} for one in range(8)]


def once(what, worker=3, for_s=30):
    return [{"at_s": 2, "worker": worker, "what": what, "for_s": for_s}]


def fault(name, faults, phases=((0.7, 7.5),)):
    return Point(name, [list(one) for one in phases], PATIENT, {"faults": faults}, orders=())


CASES = {
    "curve": [Point(f"{load}x", [[load, 5]], QUICK, orders=("oldest", "youngest"))
              for load in LOADS],
    "recovery": [
        Point("step", [[0.7, 3], [1.4, 5], [0.7, 6]], SLOWER, {**RETRIES, "recover_from_s": 8}),
        Point("spike", [[0.7, 3], [10, 4], [0.7, 7]], SLOWER, {**RETRIES, "recover_from_s": 7}),
    ],
    "classes": [Point("12x", [[12, 7]], SLOWER, {"classes": [0.01, 0.015, 0.025, 0.95]},
                      orders=("class",))],
    "bimodal": [Point("0.8x", [[0.8, 15]], BIMODAL, orders=("oldest", "shortest"))],
    "tenants": [Point("one greedy", [[5.45, 6]], QUICK, {"tenants": [100] + [1] * 9},
                      orders=("fair",))],
    "faults": [
        fault("killed, queue", once("kill", 0, 2), ((1.2, 2), (0.5, 4))),
        fault("hang", once("hang")),
        fault("slow", once("slow")),
        fault("refuses", once("refuse")),
        fault("rolling restart", rolling("restart")),
        fault("rolling kill", rolling("kill")),
    ],
}
