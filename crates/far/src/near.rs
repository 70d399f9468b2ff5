//! The near end: starts a far end or connects to one, and requests its work.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use fathom_http::{ConnectError, Connector, parse_fields, request};
use fathom_measure::process::Running;
use fathom_record::Host;
use fathom_record::plausible::{CPUS, implausible};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::process::ProcessProgram;
use crate::protocol::channel::Channel;
use crate::protocol::error::FarError;
use crate::protocol::message::{Orders, ProtocolHello, ProtocolMessage, ProtocolOutcome, SetUp};
use crate::protocol::proof::{Side, is_nonce, is_same, nonce, proof};
use crate::protocol::token::Token;
use crate::protocol::{UPGRADE, WAIT_NS};
use crate::works::datagram;

const CONNECT: Duration = Duration::from_secs(5);
/// Lower ports are reserved for other services (RFC 6335).
const PORT_MIN: u16 = 1024;

/// A service on another host that starts far ends.
#[derive(Clone, Debug)]
pub struct Remote {
    pub address: SocketAddr,
    pub token: Option<Token>,
    /// The source address of all connections, if not the kernel's choice.
    pub bind: Option<IpAddr>,
}

/// A far end and its control connection. Dropping it ends the far end.
#[derive(Debug)]
pub struct Far {
    channel: Channel,
    /// The far end, if it is on this host.
    process: Option<Running>,
    address: SocketAddr,
    bind: Option<IpAddr>,
    /// The CPU of the requested work.
    cpu: u32,
    /// The port and the first datagram of work over UDP.
    udp: Option<(u16, String)>,
    /// The port where it accepts the connections of its work.
    listen_port: Option<u16>,
}

impl Far {
    /// Starts a far end on this host.
    ///
    /// # Errors
    /// If it cannot be started, or does not answer.
    pub fn start(program: &ProcessProgram) -> Result<Self, FarError> {
        Self::start_in(program, None)
    }

    /// The same, with a folder where it may write the files that it receives.
    ///
    /// # Errors
    /// As [`Far::start`].
    pub fn start_in(program: &ProcessProgram, folder: Option<&Path>) -> Result<Self, FarError> {
        let ends = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (near, far) = ends.map_err(FarError::errno("socketpair"))?;
        let started =
            program.start(far, &Orders { folder: folder.map(Path::to_owned), ..Orders::new(None) });
        let process = Some(started.map_err(FarError::system("start the far end"))?);
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let mut this = Self { process, ..Self::over(Channel::new(near), address) };
        this.greet(None)?;
        Ok(this)
    }

    /// Connects to a far end on another host.
    ///
    /// # Errors
    /// If it cannot be reached, or does not accept this end.
    pub fn connect(remote: &Remote) -> Result<Self, FarError> {
        let stream = connect(remote.address, remote.bind, None, "connect")?;
        let address = remote.address;
        let mut this =
            Self { bind: remote.bind, ..Self::over(Channel::new(stream.into()), address) };
        this.upgrade()?;
        this.greet(remote.token.as_ref())?;
        Ok(this)
    }

    pub(crate) fn over(channel: Channel, address: SocketAddr) -> Self {
        let (bind, udp, listen_port) = (None, None, None);
        Self { channel, process: None, address, bind, cpu: 0, udp, listen_port }
    }

    /// From HTTP to the control protocol.
    pub(crate) fn upgrade(&mut self) -> Result<(), FarError> {
        let host = self.address.to_string();
        let fields = ["Connection: Upgrade", &format!("Upgrade: {UPGRADE}")];
        let request = request("GET", "/.fathom/far", &host, fields);
        self.channel.send_bytes(request.as_bytes())?;
        let no_http = || FarError::OtherProgram("it does not answer by HTTP".to_owned());
        let (mut is_ours, mut status) = (false, 0);
        let head = self.channel.until(WAIT_NS, |data| {
            let field = |_, name: &str, value: &[u8]| {
                is_ours |= name.eq_ignore_ascii_case("server") && value == b"fathom";
            };
            let head = parse_fields(data, field).map_err(|_| no_http())?;
            Ok(head.map(|head| {
                status = head.status;
                head.bytes
            }))
        });
        match (head, status) {
            (Err(FarError::Closed), _) => Err(no_http()),
            (Err(error), _) => Err(error),
            (Ok(_), 101) => Ok(()),
            (Ok(_), 503) if is_ours => Err(FarError::Busy),
            (Ok(_), status) if is_ours => Err(FarError::OtherService(status)),
            (Ok(_), status) => Err(FarError::OtherProgram(format!("HTTP status {status}"))),
        }
    }

    pub(crate) fn greet(&mut self, token: Option<&Token>) -> Result<(), FarError> {
        let near = nonce()?;
        self.channel.send(&ProtocolMessage::Hello(ProtocolHello::new(Some(near.clone()), None)))?;
        let ProtocolMessage::Hello(hello) = self.channel.receive(WAIT_NS)? else {
            return Err(FarError::Unexpected("expected hello"));
        };
        hello.check()?;
        match (token, hello.challenge, hello.proof) {
            (None, None, _) => Ok(()),
            (None, Some(_), _) => Err(FarError::TokenMissing),
            (Some(_), None, _) => Err(FarError::TokenUnknown),
            (Some(token), Some(far), Some(found)) if is_nonce(&far) => {
                let expected = proof(token, Side::Far, &near, &far);
                if !is_same(found.as_bytes(), expected.as_bytes()) {
                    return Err(FarError::TokenWrong);
                }
                self.channel
                    .send(&ProtocolMessage::Proof { proof: proof(token, Side::Near, &near, &far) })
            }
            (Some(_), Some(_), _) => Err(FarError::Unexpected("expected a challenge and a proof")),
        }
    }

    /// The process id of a far end on this host.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().map(Running::id)
    }

    /// The facts of the far host, and the CPU to use there.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn host(&mut self) -> Result<(Host, u32), FarError> {
        self.channel.send(&ProtocolMessage::Host)?;
        match self.channel.receive(WAIT_NS)? {
            ProtocolMessage::Facts { host, cpu } => {
                let host: Option<Host> = serde_json::from_value(host).ok();
                let host = host.filter(Host::is_printable);
                let host = host.ok_or(FarError::Unexpected("expected facts"))?;
                let number = ("CPU number", cpu.into(), 0..=*CPUS.end());
                let name = host.implausible().or_else(|| implausible(&[number]));
                name.map_or(Ok((host, cpu)), |name| Err(FarError::Implausible(name)))
            }
            _ => Err(FarError::Unexpected("expected facts")),
        }
    }

    /// Sets up the work and opens its data connections. The far end works until they close.
    ///
    /// # Errors
    /// If the far end cannot do it.
    pub fn begin(&mut self, set_up: SetUp) -> Result<Vec<TcpStream>, FarError> {
        let count = set_up.work.connections();
        let congestion = set_up.congestion.clone();
        let (port, nonce) = self.request(set_up)?;
        self.address.set_port(port);
        let open = |_| {
            let call = "connect to the data port";
            let mut data = connect(self.address, self.bind, congestion.as_deref(), call)?;
            data.write_all(nonce.as_bytes()).map_err(FarError::system("send"))?;
            Ok(data)
        };
        let data: Result<Vec<_>, FarError> = (0..count).map(open).collect();
        let data = data?;
        self.channel.send(&ProtocolMessage::Go)?;
        Ok(data)
    }

    /// The port of the data connection, and the nonce with which it begins.
    pub(crate) fn request(&mut self, set_up: SetUp) -> Result<(u16, String), FarError> {
        self.cpu = set_up.cpu;
        let (uses_udp, accepts) = (set_up.work.uses_udp(), set_up.work.accepts());
        self.channel.send(&ProtocolMessage::SetUp(set_up))?;
        match self.channel.receive(WAIT_NS)? {
            // Another text could be a request to another program on that host.
            ProtocolMessage::Ready { port, nonce, udp_port, listen_port }
                if [Some(port), udp_port, listen_port]
                    .iter()
                    .flatten()
                    .all(|port| *port >= PORT_MIN)
                    && is_nonce(&nonce)
                    && udp_port.is_some() == uses_udp
                    && listen_port.is_some() == accepts =>
            {
                self.udp = udp_port.map(|port| (port, nonce.clone()));
                self.listen_port = listen_port;
                Ok((port, nonce))
            }
            _ => Err(FarError::Unexpected("expected ready")),
        }
    }

    /// Where it accepts the connections of its work, after [`Far::begin`].
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.listen_port.map(|port| SocketAddr::new(self.address.ip(), port))
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn udp_port(&self) -> Option<u16> {
        self.udp.as_ref().map(|(port, _)| *port)
    }

    /// The UDP socket of work that has begun, connected to that of the far end. `data`: the data
    /// connection.
    ///
    /// # Errors
    /// If no datagram is answered.
    pub fn datagrams(&self, data: &TcpStream) -> Result<UdpSocket, FarError> {
        let (port, nonce) = self.udp.as_ref().ok_or(FarError::Unexpected("no work over UDP"))?;
        let mut far = self.address;
        far.set_port(*port);
        datagram::open(data, far, nonce)
    }

    /// The far end's report, once the data connections are closed.
    ///
    /// # Errors
    /// If it does not come.
    pub fn finish(mut self) -> Result<ProtocolOutcome, FarError> {
        match self.channel.receive(WAIT_NS)? {
            ProtocolMessage::Result(outcome) => match outcome.implausible(self.cpu) {
                Some(name) => Err(FarError::Implausible(name)),
                None => Ok(*outcome),
            },
            _ => Err(FarError::Unexpected("expected a result")),
        }
    }
}

/// A TCP connection from the address to bind to. `call`: its name in errors.
///
/// # Errors
/// If it is refused, or not answered.
pub fn connect(
    to: SocketAddr,
    bind: Option<IpAddr>,
    congestion: Option<&str>,
    call: &'static str,
) -> Result<TcpStream, FarError> {
    let connector = Connector { from: bind, congestion, ..Connector::default() };
    let opened = connector.open(to, CONNECT, None).map(TcpStream::from);
    opened.map_err(|error| match (error, bind) {
        (ConnectError::TimedOut, _) => FarError::TimedOut(CONNECT.as_secs_f64()),
        (
            ConnectError::Bind(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::INVAL),
            Some(from),
        ) => FarError::NotOwn(from),
        (ConnectError::Bind(error), _) => FarError::errno("bind")(error),
        (ConnectError::Congestion(error), _) => FarError::errno("TCP_CONGESTION")(error),
        (ConnectError::Socket(error), _) => FarError::errno("socket")(error),
        (error, _) => FarError::system(call)(error.into()),
    })
}
