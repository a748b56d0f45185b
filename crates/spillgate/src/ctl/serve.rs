//! The answering end: command lines in, answers out.
//!
//! The commands themselves are closures given by the wiring; this file knows their lines and how a
//! restart is followed. Invariant: a client that leaves stops nothing that it has begun.

use std::io;
use std::sync::Arc;

use spillgate_core::time::Duration;
use spillgate_runtime::net::control_socket::{Answers, ControlSocket};
use spillgate_runtime::{clock, drive};

use super::{Answer, Command};
use crate::admin::Later;
use crate::admin::status::Status;

/// How often the progress of a restart is looked at.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The end of a rolling restart; in error, why it did not go through.
pub(crate) type Restarted = Later<Result<(), String>>;

/// Begins a rolling restart of the pool of this name.
pub(crate) type RestartPool = Box<dyn Fn(&str) -> Result<Restarted, String> + Send + Sync>;

/// What the commands do.
pub(crate) struct Commands {
    /// The whole picture.
    pub(crate) status: Box<dyn Fn() -> Later<Status> + Send + Sync>,
    /// Errors: there is no such pool, or its workers are not ours.
    pub(crate) restart: RestartPool,
    /// Stops gracefully.
    pub(crate) drain: Box<dyn Fn() + Send + Sync>,
    /// Stops at once.
    pub(crate) stop: Box<dyn Fn() + Send + Sync>,
}

/// Answers commands until the task is dropped. For a task of the control runtime.
pub(crate) async fn serve(socket: ControlSocket, commands: Arc<Commands>) -> io::Result<()> {
    socket
        .serve(move |line, answers| {
            let commands = Arc::clone(&commands);
            async move {
                // A client that has left needs no answer.
                let _ = answer(&commands, &line, answers).await;
            }
        })
        .await
}

async fn answer(commands: &Commands, line: &str, mut answers: Answers) -> io::Result<()> {
    let command = match serde_json::from_str(line) {
        Ok(command) => command,
        Err(error) => {
            let reason = format!("not a command: {error}");
            return send(&mut answers, &Answer::Failed { reason }).await;
        }
    };
    match command {
        Command::Status => {
            let status = Box::new((commands.status)().await);
            send(&mut answers, &Answer::Status { status }).await
        }
        Command::Restart { pool, wait } => restart(commands, &pool, wait, answers).await,
        // The answer before the deed: after it, nobody may be left to give it.
        Command::Drain => {
            let sent = send(&mut answers, &Answer::Done).await;
            (commands.drain)();
            sent
        }
        Command::Stop => {
            let sent = send(&mut answers, &Answer::Done).await;
            (commands.stop)();
            sent
        }
    }
}

async fn restart(
    commands: &Commands,
    pool: &str,
    wait: bool,
    mut answers: Answers,
) -> io::Result<()> {
    let restarted = match (commands.restart)(pool) {
        Ok(restarted) => restarted,
        Err(reason) => return send(&mut answers, &Answer::Failed { reason }).await,
    };
    if wait {
        return follow(commands, pool, restarted, answers).await;
    }
    let sent = send(&mut answers, &Answer::Done).await;
    drop(answers);
    finish(restarted).await;
    sent
}

/// How it ends is in the log of the supervisor; here it only has to be kept going.
async fn finish(restarted: Restarted) {
    let _ = restarted.await;
}

/// Tells each new progress, and the end.
async fn follow(
    commands: &Commands,
    pool: &str,
    mut restarted: Restarted,
    mut answers: Answers,
) -> io::Result<()> {
    let mut told = None;
    loop {
        let ended = drive::until(clock::now() + PROGRESS_INTERVAL, &mut restarted).await;
        if let Some(ended) = ended {
            let end = ended.map_or_else(|reason| Answer::Failed { reason }, |()| Answer::Done);
            return send(&mut answers, &end).await;
        }
        let progress = progress(&(commands.status)().await, pool);
        let Some(news) = progress.filter(|progress| told.as_ref() != Some(progress)) else {
            continue;
        };
        if let Err(error) = send(&mut answers, &news).await {
            drop(answers);
            finish(restarted).await;
            return Err(error);
        }
        told = Some(news);
    }
}

fn progress(status: &Status, pool: &str) -> Option<Answer> {
    let pool = status.pools.iter().find(|found| found.name == pool)?;
    let restart = pool.restart.as_ref()?;
    let total = u32::try_from(pool.workers.len()).unwrap_or(u32::MAX);
    Some(Answer::Progress { worker: restart.worker, done: restart.done, total })
}

async fn send(answers: &mut Answers, answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer)?;
    answers.send(&line).await
}
