//! Readiness of a process that does not announce it: somebody of its group takes connections at
//! its endpoint.
//!
//! A connection alone would not do: somebody else may have the port. Who it reached is asked of the
//! system, and a stranger is told of. Absent: the time limit, which is the machine's.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillgate_core::supervise::ProcessId;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::ProcessEvent;
use super::group::Group;
use super::owner::{Owner, describe_process, tcp_owner};
use crate::http::settings::Endpoint;

/// Time between two tries. A choice: a twentieth of a second on top of a boot is not felt.
const TRY_INTERVAL: Duration = Duration::from_millis(50);
/// The same while a stranger has the endpoint: to see who that is means reading many tables.
const TRY_INTERVAL_TAKEN: Duration = Duration::from_millis(500);
/// Longest try; a listener on this machine takes a connection at once or has a full queue.
const TRY_TIME_MAX: Duration = Duration::from_secs(1);

/// Ends when a connection to `endpoint` reaches `group`. Tells of strangers that it reaches.
pub(super) async fn by_connect(
    id: ProcessId,
    endpoint: Endpoint,
    group: Arc<Group>,
    events: Sender<ProcessEvent>,
) {
    let mut told: Option<String> = None;
    loop {
        let owner = match &endpoint {
            Endpoint::Tcp(address) => ask_tcp(*address, &group).await,
            Endpoint::Unix(path) => ask_unix(path, &group).await,
        };
        match owner {
            Owner::Group => return,
            Owner::Nobody => sleep(TRY_INTERVAL).await,
            Owner::Other(owner) => {
                if told.as_ref() != Some(&owner) {
                    told = Some(owner.clone());
                    // Nobody listens to the events any more: nobody needs this one.
                    let _ = events.send(ProcessEvent::Taken { id, owner }).await;
                }
                sleep(TRY_INTERVAL_TAKEN).await;
            }
        }
    }
}

async fn ask_tcp(address: SocketAddr, group: &Group) -> Owner {
    match timeout(TRY_TIME_MAX, TcpStream::connect(address)).await {
        Ok(Ok(_connected)) => {}
        Ok(Err(_)) | Err(_) => return Owner::Nobody,
    }
    let group = group.pid().as_raw_nonzero().get();
    let owner = tokio::task::spawn_blocking(move || tcp_owner(address, group));
    owner.await.unwrap_or(Owner::Nobody)
}

async fn ask_unix(path: &Path, group: &Group) -> Owner {
    let Ok(Ok(stream)) = timeout(TRY_TIME_MAX, UnixStream::connect(path)).await else {
        return Owner::Nobody;
    };
    // The kernel keeps the process that began to listen.
    match stream.peer_cred().ok().and_then(|listener| listener.pid()) {
        Some(pid) if group.contains(pid) => Owner::Group,
        Some(pid) => Owner::Other(describe_process(pid)),
        None => Owner::Other("a process that cannot be seen".to_string()),
    }
}
