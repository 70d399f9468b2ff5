//! network.tcp.accept: the call that takes a connection from the queue.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use fathom_record::Counter;
use rustix::net::{SocketFlags, accept_with, sockopt};

use super::ends;
use super::ports::Ports;
use crate::prelude::*;

metric!(TcpAccept, ABOUT);

/// Connections of one value, fewer than the queue of the standard library's listeners holds.
const BATCH: usize = 64;

static ABOUT: About = About {
    id: "network.tcp.accept",
    title: "TCP accept",
    timed: "accept4(2) of a connection that is queued already: 64 in a row, of which the value is \
            the mean",
    not_timed: "connecting, which this process does before; waking a process that waits for \
                connections (os.wake.cross_cpu); closing",
    model: "a bound: ≥ os.syscall{call=getppid}. There is no value: no earlier metric makes the \
            descriptor of a socket",
    source: "Linux net/socket.c, do_accept: a file, a descriptor and the queue's lock",
    pitfalls: &[
        "a blocking accept on an empty queue measures the wake-up and the other end: here all \
         connections are queued before the first call",
        "the cost does not depend on where the connection comes from: the kernel has made it \
         before the call, in a softirq, which network.tcp.connect includes on loopback",
        "each accepted connection must be one of those made: their ports are compared",
        "the connections are closed by RST, so that no TIME_WAIT stays",
    ],
    needs: &["os.syscall"],
    requires: "a loopback interface",
    expects: Counters::from_counters(&[Counter::Interrupts]),
    noise_limit: 0.10,
    ..About::BASE
};

impl Probe for TcpAccept {
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let all = vec![ProbeCase { params: Params::none(), cost_ns: 40e6 }];
        if sizes.effort == Effort::Quick && !sizes.smoke { Vec::new() } else { all }
    }

    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        at_least_getppid(1.0, "accept4 does more than getppid", known)
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        ends::check_loopback()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(|error| SamplerFault::system("listen", error))?;
        let mut ports = Ports::of_a_visit();
        let operation = |clock: &Clock| accept_all(&listener, &mut ports, clock);
        sampler.run(vec![single(0, BATCH as u64, operation)]);
        Ok(())
    }
}

/// Queues connections, accepts all, and compares their ports.
fn accept_all(listener: &TcpListener, ports: &mut Ports, clock: &Clock) -> Result<f64> {
    let failed = |error| SamplerFault::system("connect", error);
    let address = listener.local_addr().map_err(failed)?;
    let mut made = Vec::with_capacity(BATCH);
    for _ in 0..BATCH {
        ports.take()?;
        let connection = TcpStream::connect(address).map_err(failed)?;
        let is_set = sockopt::set_socket_linger(&connection, Some(Duration::ZERO));
        is_set.map_err(|error| SamplerFault::system("SO_LINGER", error))?;
        made.push(connection);
    }
    let mut accepted = Vec::with_capacity(BATCH);
    let start = clock.start();
    for _ in 0..BATCH {
        accepted.push(accept_with(listener, SocketFlags::CLOEXEC));
    }
    let ns = clock.ns(start, clock.stop());
    for (near, far) in made.iter().zip(accepted) {
        let far = far.map_err(|error| SamplerFault::system("accept4", error))?;
        let port = TcpStream::from(far).peer_addr().map(|from| from.port());
        let expected = near.local_addr().map_err(failed)?.port();
        // A process of this host may connect to any port.
        if port.map_err(failed)? != expected {
            return Err(SamplerFault::WrongWork(
                "accepted a connection of another process".to_owned(),
            ));
        }
    }
    Ok(ns / BATCH as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn queued_connections_are_accepted() {
        for (_, sample) in smoke::run(&TcpAccept) {
            let sample = sample.expect("a loopback interface");
            assert_eq!(sample.batch, 64);
        }
    }

    #[test]
    fn connection_of_another_process_is_no_result() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ports = Ports::of_a_visit();
        assert!(accept_all(&listener, &mut ports, &smoke::clock()).is_ok());
        let _other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fault = accept_all(&listener, &mut ports, &smoke::clock()).unwrap_err();
        assert!(matches!(fault, SamplerFault::WrongWork(text) if text.contains("another process")));
    }
}
