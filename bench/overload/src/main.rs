//! One run of the overload bench: workers of known service time and the clients that ask them, in
//! one process and on one clock, so that a fault, a request and its answer can be told apart to the
//! microsecond. The proxy between them is started by `run.py`.
//!
//! Spoken over stdin and stdout, a line each: the plan in; the addresses of the workers out; the
//! address to ask in; the result out. A plan with an `ideal` is simulated and needs no proxy: only
//! its result is printed.

mod http;
mod ideal;
mod load;
mod plan;
mod poll;
mod report;
mod workers;

use std::error::Error;
use std::io::{BufRead, stdin};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plan::Plan;
use poll::Clock;
use workers::Crew;

fn main() -> Result<(), Box<dyn Error>> {
    let mut lines = stdin().lock().lines();
    let mut line = move || lines.next().ok_or("stdin has ended").map_err(Box::<dyn Error>::from);
    let plan: Plan = serde_json::from_str(&line()??)?;
    let plan = Arc::new(plan);
    let arrivals = Arc::new(plan.arrivals());
    if let Some(ideal) = &plan.ideal {
        let tries = ideal::simulate(&plan, &arrivals, ideal);
        println!("{}", report::result(&plan, &arrivals, &tries));
        return Ok(());
    }
    let crew = Crew::start(Arc::clone(&plan), Arc::clone(&arrivals))?;
    println!("{}", serde_json::to_string(&crew.addresses)?);
    let target: SocketAddr = line()??.trim().parse()?;
    let clock = Clock::after(Duration::from_millis(50));
    crew.begin(clock);
    let tries = load::run(&plan, &arrivals, target, clock)?;
    let mut result = report::result(&plan, &arrivals, &tries);
    result["workers"] = crew.stop()?;
    println!("{result}");
    Ok(())
}
