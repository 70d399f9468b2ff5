//! os.unix.connect: a connection between two Unix stream sockets, made and closed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Params, Prediction};

use super::child::refused;
use super::raw_call::system_call;
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Probe, Sizes};

/// os.unix.connect.
pub struct UnixConnect;

static ABOUT: About = About {
    id: "os.unix.connect",
    title: "connection of Unix sockets",
    timed: "socket, connect to a listening stream socket of the same process, accept, and the \
            closing of both ends: five system calls by the bare instruction",
    not_timed: "a server of its own: connect does not wait for accept, so both sides are made by \
                one process, without a switch, which os.switch.process tells; sending anything; \
                making and naming the listening socket",
    model: "a bound: five system calls, each of which does more than getppid: ≥ 5 × \
            os.syscall{call=getppid}. There is no value: no earlier metric makes or frees a socket",
    source: "bound: Linux net/unix/af_unix.c, unix_stream_connect and unix_accept",
    pitfalls: &[
        "lmbench's lat_unix_connect has a server process, unpinned: its number holds wake-ups and \
         switches as the scheduler places them",
        "through a C library each of the five calls returns once more, mispredicted: see \
         os.syscall{call=getppid_called}; and predictors that calls of several kinds have trained \
         make one process dearer than the next",
        "a path would be looked up in a file system and outlive the process: the address is an \
         abstract one that the kernel chooses, and is gone with the socket",
        "a call that fails is fast: all five results are looked at in the loop, and that the two \
         ends belong together is seen before by a byte that is sent through them",
        "a closed socket is freed later, by the kernel's deferred work, which falls into the batch \
         as it does into a program that connects often",
    ],
    needs: &["os.syscall"],
    noise_limit: 0.10,
    ..About::BASE
};

/// System calls of one connection.
const CALLS: f64 = 5.0;

impl Probe for UnixConnect {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case::usual(Params::none())]
    }

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let source =
            "socket, connect, accept4 and twice close, each of which does more than getppid";
        let order = Order { factor: CALLS, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let listener = Listener::new()?;
        listener.try_once()?;
        let work = Work::batched(0, |iterations| listener.connect_often(iterations));
        sampler.run(vec![work]);
        sampler.check(0, "queue", listener.is_idle(), "nobody waits to be accepted afterwards");
        Ok(())
    }
}

/// A listening socket under a name that the kernel chose.
struct Listener {
    socket: OwnedFd,
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

impl Listener {
    fn new() -> Result<Self, Fault> {
        let failed = |call: &str| refused(call, &io::Error::last_os_error());
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        if socket < 0 {
            return Err(failed("socket"));
        }
        // SAFETY: the descriptor was made just now and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: an address of zeros is a valid one.
        let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let place = (&raw mut address).cast::<libc::sockaddr>();
        // An address without a name: the kernel gives it one that nobody has.
        let nameless = size_of::<libc::sa_family_t>() as libc::socklen_t;
        let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let descriptor = socket.as_raw_fd();
        // SAFETY: the address is as long as it is said to be, and written to no further.
        unsafe {
            if libc::bind(descriptor, place, nameless) != 0 {
                return Err(failed("bind"));
            }
            if libc::getsockname(descriptor, place, &raw mut length) != 0 {
                return Err(failed("getsockname"));
            }
            if libc::listen(descriptor, 8) != 0 {
                return Err(failed("listen"));
            }
        }
        Ok(Self { socket, address, length })
    }

    /// Both ends of a new connection: numbers of descriptors, or errnos.
    #[inline]
    fn connect(&self) -> (isize, isize, isize) {
        let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
        let address = (&raw const self.address).addr();
        let listener = self.socket.as_raw_fd() as usize;
        // SAFETY: the address is as long as it is said to be; accept4 is told of no place to write
        // to, and does not wait.
        unsafe {
            let near = system_call(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0]);
            let length = self.length as usize;
            let connected = system_call(libc::SYS_connect, [near as usize, address, length, 0]);
            let flags = libc::SOCK_CLOEXEC as usize;
            let far = system_call(libc::SYS_accept4, [listener, 0, 0, flags]);
            (near, connected, far)
        }
    }

    /// Makes and closes connections, and returns how many went well.
    fn connect_often(&self, connections: u64) -> u64 {
        let mut done = 0;
        for _ in 0..connections {
            let (near, connected, far) = self.connect();
            // Without a branch: what could not be opened cannot be closed.
            let closed = close(far) | close(near);
            done += u64::from(connected == 0 && closed == 0);
        }
        done
    }

    /// Makes one connection and sends a byte through it.
    fn try_once(&self) -> Result<(), Fault> {
        let (near, connected, far) = self.connect();
        let failure = [near, connected, far].into_iter().find(|result| *result < 0);
        let passed = failure.is_none().then(|| passes(near, far));
        [far, near].into_iter().filter(|end| *end >= 0).for_each(|end| {
            close(end);
        });
        match (failure, passed) {
            (Some(errno), _) => {
                Err(refused("connect a Unix socket", &io::Error::from_raw_os_error(-errno as i32)))
            }
            (_, Some(true)) => Ok(()),
            _ => Err(Fault::WrongWork("no byte came through the connection".to_owned())),
        }
    }

    /// Whether nobody waits to be accepted.
    fn is_idle(&self) -> bool {
        let flags = libc::SOCK_CLOEXEC as usize;
        let listener = self.socket.as_raw_fd() as usize;
        // SAFETY: as in `connect`.
        let far = unsafe { system_call(libc::SYS_accept4, [listener, 0, 0, flags]) };
        close(far);
        far == -(libc::EAGAIN as isize)
    }
}

/// Whether a byte that is written to one end is read from the other. Waits for nothing.
fn passes(near: isize, far: isize) -> bool {
    let (sent, mut received) = ([0x5a_u8], [0_u8]);
    let place = received.as_mut_ptr().cast();
    // SAFETY: both buffers are as long as they are said to be.
    unsafe {
        let written = [near as usize, sent.as_ptr().addr(), 1, 0];
        system_call(libc::SYS_write, written) == 1
            && libc::recv(far as libc::c_int, place, 1, libc::MSG_DONTWAIT) == 1
            && received == sent
    }
}

/// Closes a descriptor of a connection; an errno is none, and closes nothing.
#[inline]
fn close(descriptor: isize) -> isize {
    // SAFETY: the descriptor was opened for a connection that nobody uses any more.
    unsafe { system_call(libc::SYS_close, [descriptor as usize, 0, 0, 0]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn every_connection_is_made_accepted_and_closed() {
        let taken = smoke::run(&UnixConnect);
        let sample = taken[0].1.as_ref().unwrap();
        assert!(sample.values.iter().all(|ns| *ns > 0.0), "{:?}", sample.values);
        assert_eq!(sample.checks[0].name, "queue");
    }

    #[test]
    fn the_two_ends_belong_together_and_two_listeners_do_not_meet() {
        let (one, other) = (Listener::new().unwrap(), Listener::new().unwrap());
        assert_eq!(one.try_once(), Ok(()));
        assert_eq!((one.connect_often(100), other.connect_often(100)), (100, 100));
        assert!(one.is_idle() && other.is_idle());
        let (ours, theirs) = (one.connect(), other.connect());
        assert!(passes(ours.0, ours.2) && passes(theirs.2, theirs.0));
        assert!(!passes(ours.0, theirs.2), "nothing comes from a stranger");
        let foreign = [theirs.0 as usize, c"x".as_ptr().addr(), 1, 0];
        // SAFETY: the byte is a constant.
        assert_eq!(unsafe { system_call(libc::SYS_write, foreign) }, 1);
        assert!(!passes(ours.0, theirs.2), "and another byte is no answer");
        for end in [ours.0, ours.2, theirs.0, theirs.2] {
            assert_eq!(close(end), 0);
        }
    }

    #[test]
    fn a_connection_that_is_refused_is_not_counted() {
        let mut listener = Listener::new().unwrap();
        // Nobody listens under the name with one letter changed.
        listener.address.sun_path[1] ^= 0x40;
        assert_eq!(listener.connect_often(10), 0);
        let fault = listener.try_once();
        assert!(
            matches!(&fault, Err(Fault::Failed(text)) if text.contains("refused")),
            "{fault:?}"
        );
    }

    #[test]
    fn a_connection_that_nobody_accepted_is_seen() {
        let listener = Listener::new().unwrap();
        let mut mute = Listener::new().unwrap();
        // Connects to one and accepts from the other, which does not wait.
        mute.address = listener.address;
        assert_eq!(mute.connect_often(3), 0);
        assert!(!listener.is_idle(), "three wait to be accepted");
    }

    #[test]
    fn the_prediction_counts_the_calls() {
        let getppid = smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0);
        let records = [getppid];
        let case = UnixConnect.cases(&Host::default(), &Sizes::default()).remove(0);
        let claim = UnixConnect.predict(&case, &Host::default(), &Inputs::new(&records)).unwrap();
        assert_eq!(claim.low, Some(500.0));
    }
}
