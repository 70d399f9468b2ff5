//! os.unix.connect: connecting, accepting and closing a Unix stream socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::child::creation_fault;
use super::raw_call::system_call;
use crate::prelude::*;

metric!(UnixConnect, ABOUT);

static ABOUT: About = About {
    id: "os.unix.connect",
    title: "connection of Unix sockets",
    timed: "socket, connect to a listening stream socket of the same process, accept, and close of \
            both sockets: five inlined system calls",
    not_timed: "a server process: connect does not wait for accept, so one process does both sides \
                without a context switch (os.switch.process); sending data; creating and binding \
                the listening socket",
    model: "a bound: five system calls, each of which does more than getppid: ≥ 5 × \
            os.syscall{call=getppid}. There is no value: no earlier metric creates or frees a \
            socket",
    source: "bound: Linux net/unix/af_unix.c, unix_stream_connect and unix_accept",
    pitfalls: &[
        "lmbench's lat_unix_connect has an unpinned server process: its number includes wake-ups \
         and switches that depend on the scheduler's placement",
        "through the C library each of the five calls adds a mispredicted return, see \
         os.syscall{call=getppid_called}; mixed calls also train the predictors differently in \
         each process, which adds spread between processes",
        "a path would require a file system lookup and outlive the process: here the address is \
         an abstract one chosen by the kernel, freed with the socket",
        "a call that fails is fast: all five results are compared in the loop, and before it a \
         byte sent through a connection verifies that its two sockets are connected",
        "the kernel frees closed sockets later, in deferred work within the batch, as it does for \
         any program that connects often",
    ],
    needs: &["os.syscall"],
    noise_limit: 0.10,
    ..About::BASE
};

impl Probe for UnixConnect {
    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let source =
            "socket, connect, accept4 and two closes, each of which does more than getppid";
        at_least_getppid(5.0, source, known)
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let listener = UnixConnectListener::new()?;
        listener.verify()?;
        sampler.run(vec![SamplerWork::batched(0, |connections| listener.repeat(connections))]);
        sampler.check(0, "queue", listener.is_idle(), "no connection left to accept");
        Ok(())
    }
}

/// A listening socket with an abstract address.
struct UnixConnectListener {
    socket: OwnedFd,
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

impl UnixConnectListener {
    fn new() -> Result<Self> {
        let failed = |call: &str| creation_fault(call, &io::Error::last_os_error());
        // Nonblocking, so that accepting from an empty queue fails instead of waiting.
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        if socket < 0 {
            return Err(failed("socket"));
        }
        // SAFETY: the descriptor was just created and is used nowhere else.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: a zeroed address is valid.
        let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let pointer = (&raw mut address).cast::<libc::sockaddr>();
        // The family alone: the kernel assigns a unique abstract address (autobind).
        let family_only = size_of::<libc::sa_family_t>() as libc::socklen_t;
        let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let descriptor = socket.as_raw_fd();
        // SAFETY: the address is valid for the given lengths.
        unsafe {
            if libc::bind(descriptor, pointer, family_only) != 0 {
                return Err(failed("bind"));
            }
            if libc::getsockname(descriptor, pointer, &raw mut length) != 0 {
                return Err(failed("getsockname"));
            }
            if libc::listen(descriptor, 8) != 0 {
                return Err(failed("listen"));
            }
        }
        Ok(Self { socket, address, length })
    }

    /// Returns the results of socket, connect and accept4.
    #[inline]
    fn connect(&self) -> (isize, isize, isize) {
        let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
        let address = (&raw const self.address).addr();
        let listener = self.socket.as_raw_fd() as usize;
        // SAFETY: the address has the given length; accept4 gets null pointers.
        unsafe {
            let near = system_call(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0]);
            let length = self.length as usize;
            let connected = system_call(libc::SYS_connect, [near as usize, address, length, 0]);
            let flags = libc::SOCK_CLOEXEC as usize;
            let far = system_call(libc::SYS_accept4, [listener, 0, 0, flags]);
            (near, connected, far)
        }
    }

    /// Makes and closes connections; returns how many succeeded.
    fn repeat(&self, connections: u64) -> u64 {
        let mut done = 0;
        for _ in 0..connections {
            let (near, connected, far) = self.connect();
            // Branch-free: closing a negative errno fails.
            let closed = close(far) | close(near);
            done += u64::from(connected == 0 && closed == 0);
        }
        done
    }

    /// Makes one connection and sends a byte through it.
    fn verify(&self) -> Result<()> {
        let (near, connected, far) = self.connect();
        let failure = [near, connected, far].into_iter().find(|result| *result < 0);
        let outcome = match failure {
            Some(errno) => {
                let error = io::Error::from_raw_os_error(-errno as i32);
                Err(creation_fault("connect a Unix socket", &error))
            }
            None if passes_byte(near, far) => Ok(()),
            None => Err(SamplerFault::WrongWork("the connection did not pass a byte".to_owned())),
        };
        close(far);
        close(near);
        outcome
    }

    /// Whether no connection waits to be accepted.
    fn is_idle(&self) -> bool {
        let flags = libc::SOCK_CLOEXEC as usize;
        let listener = self.socket.as_raw_fd() as usize;
        // SAFETY: as in `connect`.
        let far = unsafe { system_call(libc::SYS_accept4, [listener, 0, 0, flags]) };
        close(far);
        far == -(libc::EAGAIN as isize)
    }
}

/// Whether a byte written to one socket can be read from the other without blocking.
fn passes_byte(near: isize, far: isize) -> bool {
    let (sent, mut received) = ([0x5a_u8], [0_u8]);
    let buffer = received.as_mut_ptr().cast();
    // SAFETY: both buffers have one byte.
    unsafe {
        let written = [near as usize, sent.as_ptr().addr(), 1, 0];
        system_call(libc::SYS_write, written) == 1
            && libc::recv(far as libc::c_int, buffer, 1, libc::MSG_DONTWAIT) == 1
            && received == sent
    }
}

/// Closes a connection's descriptor; fails for a negative errno.
#[inline]
fn close(descriptor: isize) -> isize {
    // SAFETY: the connection is no longer used.
    unsafe { system_call(libc::SYS_close, [descriptor as usize, 0, 0, 0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_a_connection_are_connected() {
        let (one, other) =
            (UnixConnectListener::new().unwrap(), UnixConnectListener::new().unwrap());
        assert_eq!(one.verify(), Ok(()));
        assert_eq!((one.repeat(100), other.repeat(100)), (100, 100));
        assert!(one.is_idle() && other.is_idle());
        let (a, b) = (one.connect(), other.connect());
        assert!(passes_byte(a.0, a.2) && passes_byte(b.2, b.0));
        assert!(!passes_byte(a.0, b.2), "sockets of different connections");
        let foreign = [b.0 as usize, c"x".as_ptr().addr(), 1, 0];
        // SAFETY: the byte is a constant.
        assert_eq!(unsafe { system_call(libc::SYS_write, foreign) }, 1);
        assert!(!passes_byte(a.0, b.2), "another byte was received");
        for end in [a.0, a.2, b.0, b.2] {
            assert_eq!(close(end), 0);
        }
    }

    #[test]
    fn refused_connection_is_not_counted() {
        let mut listener = UnixConnectListener::new().unwrap();
        // Nobody listens on the changed address.
        listener.address.sun_path[1] ^= 0x40;
        assert_eq!(listener.repeat(10), 0);
        let fault = listener.verify();
        assert!(
            matches!(&fault, Err(SamplerFault::Failed(text)) if text.contains("refused")),
            "{fault:?}"
        );
    }

    #[test]
    fn unaccepted_connection_is_not_counted() {
        let listener = UnixConnectListener::new().unwrap();
        let mut mute = UnixConnectListener::new().unwrap();
        // Connects to one listener and accepts from the other.
        mute.address = listener.address;
        assert_eq!(mute.repeat(3), 0);
        assert!(!listener.is_idle(), "three connections wait");
    }
}
