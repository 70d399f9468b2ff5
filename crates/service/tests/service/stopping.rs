//! The beginning and the end of a service.

use std::net::TcpStream;

use fathom_service::{Options, ServerEnding, ServiceError, ServiceServer};

use crate::RunningService;

const SECOND_NS: u64 = 1_000_000_000;

fn refused(change: impl FnOnce(&mut Options)) -> ServiceError {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::new(folder.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    change(&mut options);
    ServiceServer::start(options).map(drop).expect_err("it starts")
}

#[test]
fn responses_finish_after_stop() {
    let mut service = RunningService::new();
    let bytes = service.file("large", 32 << 20);
    let address = service.server().addresses()[0];
    let mut idle = service.connect();
    assert_eq!(idle.get("/none").status, 404);
    let mut client = service.connect();
    client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.stream.peek(&mut [0]).expect("a response"), 1);
    let server = service.server.take().expect("it runs");
    let stopping = std::thread::spawn(move || server.stop(600 * SECOND_NS));
    idle.assert_closed();
    assert!(TcpStream::connect(address).is_err(), "it still listens");
    assert!(client.reply().body == bytes);
    client.assert_closed();
    assert_eq!(stopping.join().expect("no panic"), ServerEnding::default());
}

#[test]
fn unread_responses_are_cut_after_the_grace() {
    let mut service = RunningService::new();
    service.file("large", 64 << 20);
    let mut client = service.connect();
    client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.stream.peek(&mut [0]).expect("a response"), 1);
    let server = service.server.take().expect("it runs");
    assert_eq!(server.stop(SECOND_NS / 10), ServerEnding { cut: 1, ..ServerEnding::default() });
}

#[test]
fn ipv6_is_served() {
    let listen = "[::1]:0".parse().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::new(folder.path());
    options.listen = vec![listen];
    match ServiceServer::start(options) {
        Err(ServiceError::Listen { .. }) => crate::skipped("no IPv6"),
        server => {
            let address = server.expect("it starts").addresses()[0];
            assert!(address.is_ipv6());
        }
    }
}

#[test]
fn impossible_services_do_not_start() {
    let none = refused(|options| options.folder = "/nonexistent".into());
    assert!(matches!(none, ServiceError::Folder { .. }), "{none}");
    let file = refused(|options| options.folder = "/proc/self/stat".into());
    assert!(matches!(file, ServiceError::Folder { .. }), "{file}");
    let service = RunningService::new();
    let taken = refused(|options| options.listen = service.server().addresses().to_vec());
    assert!(matches!(taken, ServiceError::Listen { .. }), "{taken}");
    for address in ["0.0.0.0:0", "[::]:0", "[::ffff:10.0.0.1]:0", "192.0.2.1:0"] {
        let exposed = refused(|options| options.listen = vec![address.parse().expect("one")]);
        assert!(matches!(exposed, ServiceError::NeedsToken { .. }), "{exposed}");
    }
    let congestion = refused(|options| options.congestion = Some("none-such".to_owned()));
    assert!(matches!(congestion, ServiceError::Congestion { .. }), "{congestion}");
    let none_left = refused(|options| options.limits.connections = Some(0));
    assert!(matches!(none_left, ServiceError::Descriptors { .. }), "{none_left}");
}

#[test]
fn congestion_control_is_set() {
    let service = RunningService::with(|options| options.congestion = Some("reno".to_owned()));
    assert_eq!(service.server().congestion(), "reno");
    assert_eq!(service.json("/.fathom/telemetry")["congestion"], "reno");
}
