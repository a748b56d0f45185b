//! The admin side over HTTP: a page, `/status`, `/metrics` and `/ready`. Read-only.
//!
//! Everything shown comes from one [`Source`] of closures that copy numbers out; nothing here can
//! reach a machine, a shard or a socket of the serving side. Commands go over the Unix socket of
//! [`crate::ctl`] instead, because a browser can be made to send requests but not to open one.
//!
//! Absent: passwords and TLS. The address is a loopback one by default, and [`guard`] keeps
//! foreign pages out of it.

mod guard;
mod open_metrics;
pub(crate) mod status;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use spillgate_runtime::metrics::Family;
use spillgate_runtime::net::admin::{AdminListener, AdminStream};
use spillgate_runtime::{clock, drive};

use guard::Guard;
use status::Status;

/// Shards are asked by message; one that does not answer within this time is worth an error.
const STATUS_TIME_MAX: Duration = Duration::from_secs(2);

const PAGE: &[u8] = include_bytes!("page/page.html");
const PAGE_SCRIPT: &[u8] = include_bytes!("page/page.js");
const PAGE_STYLE: &[u8] = include_bytes!("page/page.css");

/// What is said at any other path.
const ELSEWHERE: &str = "nothing here; there are / (the page), /status, /metrics and /ready\n";

/// Something that is worked out elsewhere.
pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Where everything shown comes from.
pub(crate) struct Source {
    /// The whole picture.
    pub(crate) status: Box<dyn Fn() -> Later<Status> + Send + Sync>,
    /// All metrics.
    pub(crate) metrics: Box<dyn Fn() -> Vec<Family> + Send + Sync>,
    /// Whether new connections are welcome.
    pub(crate) ready: Box<dyn Fn() -> Ready + Send + Sync>,
}

/// Whether new connections are welcome.
#[allow(clippy::enum_variant_names, reason = "the variants are the words that are answered")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Not yet: no listener is open.
    Starting,
    /// They are.
    Ready,
    /// Not any more.
    Stopping,
}

/// Serves until the task is dropped. For a task of the control runtime.
pub(crate) async fn serve(listener: AdminListener, source: Arc<Source>) -> io::Result<()> {
    let guard = Arc::new(Guard::of(listener.address()));
    axum::serve(Listening(listener), router(guard, source)).await
}

fn router(guard: Arc<Guard>, source: Arc<Source>) -> Router {
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", PAGE) }))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", PAGE_SCRIPT) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", PAGE_STYLE) }))
        .route("/status", get(show_status))
        .route("/metrics", get(show_metrics))
        .route("/ready", get(show_ready))
        .fallback(|| async { (StatusCode::NOT_FOUND, ELSEWHERE) })
        .with_state(source)
        .layer(middleware::from_fn_with_state(guard, guard::check))
}

fn asset(content_type: &'static str, bytes: &'static [u8]) -> Response {
    ([(header::CONTENT_TYPE, content_type)], bytes).into_response()
}

async fn show_status(State(source): State<Arc<Source>>) -> Response {
    let until = clock::now() + STATUS_TIME_MAX;
    match drive::until(until, (source.status)()).await {
        Some(status) => Json(status).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "a shard does not answer\n").into_response(),
    }
}

async fn show_metrics(State(source): State<Arc<Source>>) -> Response {
    match open_metrics::encode((source.metrics)()) {
        Ok(text) => ([(header::CONTENT_TYPE, open_metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            let text = format!("the metrics cannot be written: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn show_ready(State(source): State<Arc<Source>>) -> Response {
    match (source.ready)() {
        Ready::Ready => (StatusCode::OK, "ready\n").into_response(),
        Ready::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
        Ready::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
    }
}

/// The runtime's listener in the form in which the router wants it.
struct Listening(AdminListener);

impl axum::serve::Listener for Listening {
    type Io = AdminStream;
    type Addr = ();

    async fn accept(&mut self) -> (AdminStream, ()) {
        (self.0.accept().await, ())
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
