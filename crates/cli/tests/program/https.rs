//! `fathom fetch` and `fathom load` by https: servers of the test behind a TLS proxy of the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use fathom_record::FactValue;
use fathom_testing::{Certificate, listen, read_head};
use rustls::{ServerConnection, StreamOwned};

use crate::load::LoadServing;
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_failure, assert_message, assert_status, of_metric, text,
};

/// A proxy with a certificate of `localhost`, which is its own issuer.
struct Proxy {
    port: u16,
    pem: String,
}

impl Proxy {
    /// Each connection has one request. `announces`: it ends by close_notify.
    fn start(upstream: SocketAddr, announces: bool) -> Self {
        let own = Certificate::of_names(&["localhost"]);
        let config = own.server();
        let address = listen(move |near| {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            pass_on(StreamOwned::new(session, near), upstream, announces);
        });
        Self { port: address.port(), pem: own.issuer_pem }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }
}

/// Passes a request on, and its response up to the end of the connection.
fn pass_on(
    mut near: StreamOwned<ServerConnection, TcpStream>,
    upstream: SocketAddr,
    announces: bool,
) -> Option<()> {
    let head = read_head(&mut near)?;
    let mut far = TcpStream::connect(upstream).ok()?;
    // At once: a server that closes before it has read all resets the connection.
    write!(far, "{}Connection: close\r\n\r\n", &head[..head.len() - 2]).ok()?;
    std::io::copy(&mut far, &mut near).ok()?;
    if announces {
        near.conn.send_close_notify();
    }
    near.flush().ok()
}

fn serving(env: &ProgramTestEnv) -> (LoadServing, SocketAddr) {
    std::fs::create_dir(env.file("data")).expect("a folder");
    std::fs::write(env.file("data/f"), vec![b'x'; 300_000]).expect("a file");
    let (serving, url) = LoadServing::spawn(env.command("serve data --listen 0"));
    let address = url.trim_start_matches("http://").trim_end_matches('/').parse();
    (serving, address.expect("an address"))
}

#[test]
fn file_comes_from_trusted_servers_only() {
    let env = ProgramTestEnv::new();
    let (_serving, address) = serving(&env);
    let (proxy, other) = (Proxy::start(address, true), Proxy::start(address, true));
    std::fs::write(env.file("ca.pem"), &proxy.pem).expect("a file");
    std::fs::write(env.file("other.pem"), &other.pem).expect("a file");
    let fetch = |url: &str, more: &str| env.exec(&format!("fetch {url} -o to {more}"));
    let unknown = fetch(&proxy.url("/f"), "--cacert other.pem");
    assert_failure(&unknown, &["TLS: certificate of an unknown issuer", "--cacert FILE"]);
    let numeric = format!("https://127.0.0.1:{}/f", proxy.port);
    let why = "TLS: certificate of another name: localhost, expected 127.0.0.1";
    assert_failure(&fetch(&numeric, "--cacert ca.pem"), &[why, "--insecure"]);
    let no_tls = format!("https://localhost:{}/f", address.port());
    let no_tls = fetch(&no_tls, "--cacert ca.pem");
    assert_failure(&no_tls, &["TLS: the server speaks no TLS on this port; use http://"]);
    let plain = env.exec(&format!("load http://localhost:{}/f", proxy.port));
    assert_failure(&plain, &["a TLS alert: the server expects https://"]);
    assert!(!env.file("to").exists());
    let whole = fetch(&proxy.url("/f"), "--cacert ca.pem");
    assert_status(&whole, 0);
    assert_eq!(std::fs::read(env.file("to")).expect("a file"), vec![b'x'; 300_000]);
    let printed = crate::test_env::unwrapped_stdout(&whole);
    assert_contains(&printed, &["TLS handshake", "certificate verified by ca.pem"]);
    let insecure = fetch(&numeric, "--insecure --force");
    assert_message(&insecure, 0, &["--insecure: no certificate is verified"]);
}

#[test]
fn server_gets_the_certificate_that_it_wants() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let env = ProgramTestEnv::new();
        let own = Certificate::of_names(&["localhost"]);
        std::fs::write(env.file("own.pem"), &own.issuer_pem).expect("a file");
        std::fs::write(env.file("own.key"), &own.key_pem).expect("a file");
        let config = Arc::new(own.server_wanting(version));
        let address = listen(move |near| {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut near = StreamOwned::new(session, near);
            if read_head(&mut near).is_some() {
                assert_eq!(near.conn.server_name(), Some("localhost"), "SNI");
                let _ = near.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
            }
        });
        let url = format!("https://localhost:{}/f", address.port());
        let fetch = |more: &str| env.exec(&format!("fetch {url} --cacert own.pem -o to {more}"));
        let without = fetch("--retries 0");
        assert_failure(&without, &["TLS: the server requires a client certificate; --cert FILE"]);
        assert_failure(&fetch("--cert own.key"), &["--cert own.key: no certificate in PEM"]);
        assert_status(&fetch("--cert own.pem --key own.key"), 0);
        let other = Certificate::of_names(&["localhost"]);
        std::fs::write(env.file("other.key"), &other.key_pem).expect("a file");
        let text = "--key other.key: the key is not that of the certificate";
        assert_failure(&fetch("--cert own.pem --key other.key"), &[text]);
        let load = env.exec(&format!("load {url} --insecure --cert own.pem --key own.pem"));
        assert_failure(&load, &["--key own.pem: no private key in PEM"]);
        let load = env.exec(&format!("load {url} --cacert own.pem --duration 1s"));
        assert_failure(&load, &["TLS: the server requires a client certificate; --cert FILE"]);
    }
}

#[test]
fn body_without_length_needs_a_close_notify() {
    let address = listen(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody");
    });
    for announces in [false, true] {
        let env = ProgramTestEnv::new();
        let proxy = Proxy::start(address, announces);
        std::fs::write(env.file("ca.pem"), &proxy.pem).expect("a file");
        let line = format!("fetch {} --cacert ca.pem --retries 0 -o to", proxy.url("/f"));
        let output = env.exec(&line);
        if announces {
            assert_status(&output, 0);
        } else {
            assert_failure(&output, &["TLS: connection closed without close_notify"]);
        }
        assert_eq!(env.file("to").exists(), announces);
    }
}

#[test]
fn load_behind_a_proxy_knows_both_ends_and_the_session() {
    let env = ProgramTestEnv::new();
    let (_serving, address) = serving(&env);
    let proxy = Proxy::start(address, true);
    std::fs::write(env.file("ca.pem"), &proxy.pem).expect("a file");
    let line = format!("load {} --cacert ca.pem --clients 2 --time 900ms", proxy.url("/"));
    let output = env.exec(&line);
    let errors = text(&output.stderr);
    assert!(output.status.success() || errors.contains("no step has a valid result"), "{errors}");
    let document = env.latest();
    let step = of_metric(&document, "load.throughput")[0];
    assert_eq!(step.params.text("tls"), Some("1.3"));
    let fact = |name: &str| {
        let fact = step.facts.iter().find(|fact| fact.name == name);
        match &fact.unwrap_or_else(|| panic!("no fact {name}: {errors}")).value {
            FactValue::Text { text } => text.clone(),
            other => panic!("{name}: {other:?}"),
        }
    };
    assert_contains(&fact("server"), &["fathom serve behind a TLS proxy"]);
    assert_contains(&fact("TLS"), &["1.3, TLS13_", "certificate verified by ca.pem"]);
    assert_contains(&fact("session"), &["no resumption"]);
    assert!(step.facts.iter().any(|fact| fact.name == "TLS handshake"));
}
