//! The admin side's sockets, claimed before the first worker starts, and what is said of an address
//! that cannot be had.
//!
//! Absent: what is served there (`observe.rs`, `commands.rs`), and the listeners of clients
//! (`serving.rs`), which only use the words.

use std::io::{self, ErrorKind};

use spillgate_runtime::drive::Control;
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::net::admin::AdminListener;
use spillgate_runtime::net::control_socket::ControlSocket;
use spillgate_runtime::process::listener_of;

use crate::config::AdminSettings;

/// The admin side's sockets.
#[derive(Debug)]
pub(crate) struct AdminSockets {
    /// The page's; none: it is off.
    pub(crate) page: Option<AdminListener>,
    /// That of the commands.
    pub(crate) control: ControlSocket,
}

impl AdminSockets {
    /// Claim them.
    ///
    /// Errors: an address in use, not ours, or not permitted.
    pub(crate) fn claim(
        control: &Control,
        settings: &AdminSettings,
    ) -> anyhow::Result<AdminSockets> {
        let page = |address| {
            control
                .block_on(AdminListener::bind(address))
                .map_err(|error| refused("admin.address", address, &error))
        };
        let path = &settings.control;
        let control = ControlSocket::bind(path)
            .map_err(|error| refused("admin.control", &Endpoint::Unix(path.clone()), &error))?;
        Ok(AdminSockets { page: settings.address.as_ref().map(page).transpose()?, control })
    }
}

/// Why the address of `key` cannot be listened on, and what can be done about it.
pub(crate) fn refused(key: &str, address: &Endpoint, error: &io::Error) -> anyhow::Error {
    let option = option_of(key);
    let mend = match (error.kind(), address) {
        (ErrorKind::AddrInUse, Endpoint::Tcp(tcp)) => match listener_of(*tcp) {
            Some(owner) => format!("{owner} has it: stop that, or choose another address{option}"),
            None => format!("choose another address{option}"),
        },
        (ErrorKind::AddrInUse, Endpoint::Unix(_)) => format!("choose another path{option}"),
        (ErrorKind::AddrNotAvailable, _) => {
            format!("no interface of this machine has it: choose another address{option}")
        }
        (ErrorKind::PermissionDenied, Endpoint::Tcp(_)) => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE".to_owned()
        }
        (ErrorKind::PermissionDenied, Endpoint::Unix(_)) => {
            "let this user write in its folder".to_owned()
        }
        (ErrorKind::NotFound, Endpoint::Unix(_)) => "make its folder first".to_owned(),
        _ => return anyhow::anyhow!("{key}: cannot listen on {address}: {error}"),
    };
    anyhow::anyhow!("{key}: cannot listen on {address}: {error}; {mend}")
}

/// How `spillgate run` is told another one, in brackets.
fn option_of(key: &str) -> &'static str {
    match key {
        "listener.main.address" => " (with `run`: --listen)",
        "admin.address" => " (with `run`: --admin)",
        "admin.control" => " (with `run`: --control)",
        _ => "",
    }
}
