//! Listening, and the connections: how many, how long, and how much they may say.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::extract::Extension;
use fathom_service::{ServiceError, Token};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::PORT;
use crate::routes::{THREADS, router};
use crate::seats::{Seat, SeatState};
use crate::shared::Shared;
use crate::view::Views;

/// A request without its body.
const HEAD_BYTES: usize = 16 << 10;
const FIELDS_MAX: usize = 64;
/// For a first request that may be made.
const PROOF_TIME: Duration = Duration::from_secs(2);
/// For a whole head, and between two requests.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// After this time a connection ends with its current response, for which it then has as much time
/// again.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// After a failure to accept, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// For what the threads do at the end.
const GRACE: Duration = Duration::from_secs(1);

pub struct UiOptions {
    /// Empty: the default port of both loopback addresses.
    pub listen: Vec<SocketAddr>,
    /// Required for data, if there is one.
    pub token: Option<Token>,
    /// Names of this server, besides addresses, `localhost` and the host name.
    pub names: Vec<String>,
    /// The page, which fetches its data.
    pub page: &'static str,
    /// CLOCK_MONOTONIC_RAW in nanoseconds.
    pub clock: fn() -> u64,
}

/// A running server.
pub struct Ui {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Ui {
    /// # Errors
    /// If it cannot listen, or an address is beyond loopback without a token.
    pub fn start(options: UiOptions, views: Arc<dyn Views>) -> Result<Self, ServiceError> {
        let is_exposed = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        let exposed = options.listen.iter().find(is_exposed);
        if let Some(&address) = exposed.filter(|_| options.token.is_none()) {
            return Err(ServiceError::NeedsToken { address });
        }
        let listeners = listen(&options.listen)?;
        let address = |it: &std::net::TcpListener| it.local_addr().map_err(ServiceError::Start);
        let addresses = listeners.iter().map(address).collect::<Result<_, _>>()?;
        let UiOptions { page, token, names, clock, .. } = options;
        let shared = Shared::new(page, token, names, views, clock);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS)
            .build()
            .map_err(ServiceError::Start)?;
        let listeners = {
            let _inside = runtime.enter();
            let of_runtime = listeners.into_iter().map(TcpListener::from_std);
            of_runtime.collect::<Result<Vec<_>, _>>().map_err(ServiceError::Start)?
        };
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let run = move || serve(runtime, listeners, &for_thread, stopped);
        let thread = std::thread::Builder::new().name("ui".to_owned()).spawn(run);
        Ok(Self { addresses, shared, stop, thread: thread.map_err(ServiceError::Start)? })
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Connections that others needed the place or the memory of.
    pub fn given_up(&self) -> u64 {
        self.shared.seats.given_up.load(Relaxed)
    }

    /// Ends all connections.
    pub fn stop(self) {
        // An error means that the thread has ended.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// The listening sockets. Without a choice one of the loopback addresses is enough.
fn listen(chosen: &[SocketAddr]) -> Result<Vec<std::net::TcpListener>, ServiceError> {
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let both = loopback.map(|address| SocketAddr::new(address, PORT));
    let all = if chosen.is_empty() { &both[..] } else { chosen };
    let (mut listeners, mut missing) = (Vec::new(), None);
    for &address in all {
        let opened = std::net::TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match opened {
            Ok(listener) => listeners.push(listener),
            Err(error) => {
                let is_absent = matches!(error.kind(), ErrorKind::AddrNotAvailable)
                    || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error());
                let error = Errno::from_io_error(&error).unwrap_or(Errno::INVAL);
                let error = ServiceError::Listen { address, error };
                if !(is_absent && all.len() == 2 && address.ip().is_loopback()) {
                    return Err(error);
                }
                missing = Some(error);
            }
        }
    }
    match missing {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

/// Serves until it is stopped.
fn serve(
    runtime: Runtime,
    listeners: Vec<TcpListener>,
    shared: &Arc<Shared>,
    stopped: oneshot::Receiver<()>,
) {
    for listener in listeners {
        runtime.spawn(accept(listener, Arc::clone(shared)));
    }
    // An error means that nobody can stop it any more.
    let _ = runtime.block_on(stopped);
    runtime.shutdown_timeout(GRACE);
}

/// A connection of a client, until it is dropped.
struct UiVisit {
    seat: Arc<Seat>,
    shared: Arc<Shared>,
}

impl Drop for UiVisit {
    fn drop(&mut self) {
        self.shared.seats.leave(&self.seat);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let Some(seat) = shared.seats.take(address.ip().to_canonical()) else { continue };
        let visit = UiVisit { seat: Arc::clone(&seat), shared: Arc::clone(&shared) };
        let task = tokio::spawn(async move { visit.serve(stream).await });
        let _ = seat.task.set(task.abort_handle());
    }
}

impl UiVisit {
    async fn serve(&self, stream: TcpStream) {
        let mut protocol = http1::Builder::new();
        protocol.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        protocol.max_buf_size(HEAD_BYTES).max_headers(FIELDS_MAX);
        let router = router(Arc::clone(&self.shared)).layer(Extension(Arc::clone(&self.seat)));
        let service = TowerToHyperService::new(router);
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
        // How a connection ends is the client's affair.
        if timeout(PROOF_TIME, connection.as_mut()).await.is_ok() {
            return;
        }
        if *self.seat.state() == SeatState::Stranger {
            return;
        }
        if timeout(CONNECTION_TIME, connection.as_mut()).await.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(CONNECTION_TIME, connection).await;
        }
    }
}
