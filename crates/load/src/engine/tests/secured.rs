//! Loads of servers by TLS: ends of bodies, handshakes, certificates.

use fathom_http::TlsFault;

use super::*;

#[test]
fn bodies_end_by_tls_only_with_close_notify() {
    let server = EngineServer::secured(Manner::UntilClose, false);
    let outcome = sweep(&server.work(2));
    let faults: Vec<&Fault> = outcome.tally.faults.keys().collect();
    assert_eq!((outcome.tally.window.completed(), &faults[..]), (0, &[&Fault::Truncated][..]));
    // The end of a connection that ends no body needs none.
    let server = EngineServer::secured(Manner::Closes { says: true }, false);
    assert_eq!(sweep(&server.work(2)).tally.failed(), 0);
}

#[test]
fn handshake_without_an_answer_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = Some(Tls::new("test", &Trust::All).unwrap());
    let work = work(silent.local_addr().unwrap(), 1);
    let tally = sweep(&Workload { tls, connect_timeout_ns: 1_000_000, ..work }).tally;
    assert_eq!(tally.faults.keys().collect::<Vec<_>>(), [&Fault::ConnectTimeout]);
}

#[test]
fn untrusted_servers_get_no_request() {
    let server = EngineServer::secured(Manner::Right, true);
    let work = server.work(2);
    let system = Tls::new("test", &Trust::System).ok();
    let own = fathom_testing::Certificate::of_names(&["test"]).issuer_pem;
    let other = Tls::new("test", &Trust::Pem(own)).unwrap();
    for tls in [Some(other)].into_iter().chain(system.map(Some)) {
        let tally = sweep(&Workload { tls, ..work.clone() }).tally;
        let faults: Vec<&Fault> = tally.faults.keys().collect();
        assert_eq!(faults, [&Fault::Tls(TlsFault::UnknownIssuer)]);
    }
    assert_eq!(server.requests.load(Relaxed), 0);
}
