//! The work of a far end: its data connections, and what it counts meanwhile.

pub(crate) mod accept;
pub(crate) mod datagram;
pub(crate) mod echo;
pub mod files;
pub(crate) mod reserve;
pub mod sink;
pub mod transfer;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fathom_measure::affinity;
use fathom_measure::clock::{Clock, ClockSource, Specification};
use fathom_measure::disturbance::VisitCounters;
use fathom_measure::sampler::reference_loop;
use fathom_record::{Check, FarEnd};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, getsockname, recv, sockopt};

use crate::protocol::WAIT_NS;
use crate::protocol::channel::{Channel, Deadline, poll_once};
use crate::protocol::error::FarError;
use crate::protocol::message::{Orders, ProtocolMessage, ProtocolOutcome, ProtocolWork, SetUp};
use crate::protocol::proof::{NONCE_DIGITS, is_same, nonce};
use crate::tcp_info::TcpInfo;
use crate::works::datagram::Datagrams;

/// How long a data connection may take to send its nonce: others wait meanwhile.
const NONCE_NS: u64 = 1_000_000_000;
/// Reference loops before and after the work: between two requests they would delay the near end.
const LOOPS: usize = 4;

/// Counted by the work, so that the far end of a near end that does nothing ends.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// Works until the data connections close.
pub(crate) fn work(
    channel: &mut Channel,
    set_up: &SetUp,
    orders: &Orders,
) -> Result<ProtocolOutcome, FarError> {
    if set_up.work == ProtocolWork::Files && orders.folder.is_none() {
        return Err(FarError::NoFolder);
    }
    affinity::pin(set_up.cpu).map_err(FarError::errno("pin to the CPU"))?;
    watch(channel, orders.idle_ns)?;
    // A descriptor table of its own: with a shared one each call on a descriptor counts references
    // by locked instructions. If it is forbidden, the calls take some nanoseconds longer.
    // SAFETY: the other thread uses a descriptor that it owns.
    let _ = unsafe { libc::unshare(libc::CLONE_FILES) };
    let FarOpened { data, udp, listener } = open(channel, set_up, WAIT_NS)?;
    let congestion =
        sockopt::tcp_congestion(&data[0]).map_err(FarError::errno("TCP_CONGESTION"))?;
    // The work closes the connections.
    let kept: Result<Vec<TcpStream>, _> = data.iter().map(TcpStream::try_clone).collect();
    let kept = kept.map_err(FarError::system("dup"))?;
    let ProtocolMessage::Go = channel.receive(WAIT_NS)? else {
        return Err(FarError::Unexpected("expected go"));
    };
    let udp =
        udp.map(|(socket, nonce)| Datagrams::from_socket(socket, &data[0], nonce)).transpose()?;
    let clock = Clock::from_specification(Specification::uncalibrated(ClockSource::MonotonicRaw));
    let loops = || (0..LOOPS).map(|_| reference_loop(&clock).sibling_ns.round());
    let mut reference_ns: Vec<f64> = loops().collect();
    let first: Vec<Option<TcpInfo>> = kept.iter().map(TcpInfo::from_socket).collect();
    let mut counters = VisitCounters::open(set_up.cpu);
    counters.mark();
    let count = match set_up.work {
        ProtocolWork::Echo { bytes, busy } => {
            echo::answer(&data[0], bytes as usize, busy, &PROGRESS)?
        }
        ProtocolWork::Transfer { chunk_bytes, .. } => {
            transfer::serve(data, chunk_bytes as usize, &PROGRESS)?
        }
        ProtocolWork::UdpEcho { bytes, busy } => {
            let udp = udp.ok_or(FarError::Unexpected("no UDP socket"))?;
            udp.answer(bytes as usize, busy, &PROGRESS)?
        }
        ProtocolWork::UdpSink { bytes } => {
            let udp = udp.ok_or(FarError::Unexpected("no UDP socket"))?;
            sink::count(&udp, bytes as usize, &PROGRESS)?
        }
        ProtocolWork::Accept { closing } => {
            let listener = listener.ok_or(FarError::Unexpected("no listening port"))?;
            accept::answer(&data[0], &listener, closing, &PROGRESS)?
        }
        ProtocolWork::Files => {
            let listener = listener.ok_or(FarError::Unexpected("no listening port"))?;
            let folder = orders.folder.as_deref().ok_or(FarError::NoFolder)?;
            files::serve(&data[0], &listener, folder, &PROGRESS)?
        }
    };
    let disturbance = counters.since_mark();
    reference_ns.extend(loops());
    let allowed = affinity::allowed();
    let check = Check {
        name: "CPU".to_owned(),
        passed: allowed == [set_up.cpu],
        detail: format!("affinity: {allowed:?}"),
    };
    let far = FarEnd { cpu: set_up.cpu, disturbance, reference_ns, checks: vec![check] };
    let tcp = first.into_iter().zip(&kept);
    let tcp = tcp.filter_map(|(first, data)| Some([first?, TcpInfo::from_socket(data)?])).collect();
    Ok(ProtocolOutcome { far, count, congestion: congestion.to_string(), tcp })
}

/// Ends this process when the control connection closes, or when there was no progress for the
/// idle time: the thread that works waits without a limit.
fn watch(channel: &Channel, idle_ns: u64) -> Result<(), FarError> {
    let failed = FarError::system("watch the control connection");
    let control = match channel.as_fd().try_clone_to_owned() {
        Ok(control) => control,
        Err(error) => return Err(failed(error)),
    };
    let run = move || {
        let mut earlier = PROGRESS.load(Relaxed);
        // Not for messages, which the other thread receives.
        while matches!(poll_once(control.as_fd(), PollFlags::RDHUP, idle_ns), Ok(None)) {
            let now = PROGRESS.load(Relaxed);
            if now == earlier {
                break;
            }
            earlier = now;
        }
        std::process::exit(0);
    };
    let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(run);
    thread.map(drop).map_err(failed)
}

/// The sockets of a work.
struct FarOpened {
    data: Vec<TcpStream>,
    /// A UDP socket, and what its first datagram must be.
    udp: Option<(UdpSocket, String)>,
    listener: Option<TcpListener>,
}

/// Accepts the data connections, each by the nonce, and opens the other sockets of the work.
fn open(channel: &Channel, set_up: &SetUp, wait_ns: u64) -> Result<FarOpened, FarError> {
    // Where the near end reached this host; a process of the same host has no address.
    let local = getsockname(channel).ok().and_then(|any| SocketAddr::try_from(any).ok());
    let mut address = local.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    address.set_port(0);
    let listener = TcpListener::bind(address).map_err(FarError::system("listen"))?;
    let port = listener.local_addr().map_err(FarError::system("listen"))?.port();
    listener.set_nonblocking(true).map_err(FarError::system("listen"))?;
    if let Some(name) = &set_up.congestion {
        // This host may not have it: the result has the name of the one in use. Accepted
        // connections inherit it.
        let _ = sockopt::set_tcp_congestion(&listener, name);
    }
    let backlog = if set_up.work == ProtocolWork::Files { files::BACKLOG } else { accept::BACKLOG };
    let of_work = set_up.work.accepts().then(|| accept::open(address.ip(), backlog)).transpose()?;
    if let (Some(name), Some(accepting)) = (&set_up.congestion, &of_work) {
        let _ = sockopt::set_tcp_congestion(accepting, name);
    }
    let bound = of_work.as_ref().map(TcpListener::local_addr).transpose();
    let listen_port = bound.map_err(FarError::system("listen"))?.map(|bound| bound.port());
    let nonce = nonce()?;
    let udp = set_up.work.uses_udp().then(|| UdpSocket::bind(address)).transpose();
    let udp = udp.map_err(FarError::system("bind a UDP socket"))?;
    let udp_port = udp.as_ref().map(UdpSocket::local_addr).transpose();
    let udp_port = udp_port.map_err(FarError::system("getsockname"))?.map(|own| own.port());
    channel.send(&ProtocolMessage::Ready { port, nonce: nonce.clone(), udp_port, listen_port })?;
    let until = Deadline::after(wait_ns);
    let mut accepted = Vec::new();
    while accepted.len() < set_up.work.connections() {
        until.wait(listener.as_fd(), PollFlags::IN)?;
        // It may have gone again.
        let Ok((data, _)) = listener.accept() else { continue };
        if has_nonce(&data, &nonce) {
            data.set_nodelay(true).map_err(FarError::system("TCP_NODELAY"))?;
            accepted.push(data);
        }
    }
    Ok(FarOpened { data: accepted, udp: udp.map(|socket| (socket, nonce)), listener: of_work })
}

fn has_nonce(data: &TcpStream, nonce: &str) -> bool {
    let until = Deadline::after(NONCE_NS);
    let (mut found, mut at) = ([0; NONCE_DIGITS], 0);
    while at < found.len() {
        match recv(data, &mut found[at..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((count, _)) => at += count,
            Err(Errno::AGAIN) if until.wait(data.as_fd(), PollFlags::IN).is_ok() => {}
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    is_same(&found, nonce.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn flood_of_data_connections_does_not_prolong_the_wait() {
        let work = ProtocolWork::Echo { bytes: 4, busy: false };
        let set_up = SetUp { work, cpu: 0, congestion: None };
        for sends_nonce in [true, false] {
            let (near, far) = UnixStream::pair().unwrap();
            let (far, set_up) = (Channel::new(far.into()), set_up.clone());
            let far = std::thread::spawn(move || open(&far, &set_up, 50_000_000).err());
            let ready = Channel::new(near.into()).receive(WAIT_NS).unwrap();
            let ProtocolMessage::Ready { port, nonce, .. } = ready else { panic!("{ready:?}") };
            let connect = || TcpStream::connect(("127.0.0.1", port));
            let _silent = (!sends_nonce).then(connect);
            // One after the other until it has ended, so that it never waits for long.
            let mut count = 0;
            while sends_nonce && let Ok(mut data) = connect() {
                let _ = data.write_all("0".repeat(nonce.len()).as_bytes());
                let _ = data.read(&mut [0]);
                count += 1;
                assert!(count < 20_000, "it goes on");
            }
            assert!(matches!(far.join().unwrap(), Some(FarError::TimedOut(_))));
        }
    }
}
