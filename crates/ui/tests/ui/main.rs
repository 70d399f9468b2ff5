//! Requests to the server of the page: what is answered, and what is refused.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use fathom_service::{ServiceError, Token};
use fathom_ui::{HistoryOf, Problem, RunsOf, Ui, UiOptions, View, Views};

/// Answers with the view that was asked for. Some names are known answers.
#[derive(Default)]
struct UiEcho {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl UiEcho {
    fn open(&self) {
        *self.is_open.lock().expect("a lock") = true;
        self.opened.notify_all();
    }
}

impl Views for UiEcho {
    fn data(&self, view: &View) -> Result<String, Problem> {
        let line = "read the store: gone; bring it back".to_owned();
        match view {
            View::Run(name) if name == "missing" => Err(Problem::Missing(line)),
            View::Run(name) if name == "damaged" => Err(Problem::Damaged(line)),
            View::Run(name) if name == "gone" => Err(Problem::Unavailable(line + "\nat once")),
            View::Run(name) if name == "large" => Ok("x".repeat(LARGE)),
            View::Run(name) if name == "panic" => panic!("asked for"),
            View::Run(name) if name == "slow" => {
                let is_open = self.is_open.lock().expect("a lock");
                drop(self.opened.wait_while(is_open, |open| !*open).expect("a lock"));
                Ok("slow".to_owned())
            }
            view => Ok(format!("{view:?}")),
        }
    }
}

/// More than the buffers of a socket; three of them are more than all data that wait may be.
const LARGE: usize = 22 << 20;
const PAGE: &str = "<!doctype html>the page";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn options(token: Option<&str>) -> UiOptions {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let names = vec!["box.example".to_owned()];
    UiOptions { listen: vec![any], token: token.map(Token::new), names, page: PAGE, clock: || 0 }
}

fn start(token: Option<&str>) -> (Ui, SocketAddr) {
    let ui = Ui::start(options(token), Arc::new(UiEcho::default())).expect("it listens");
    let address = ui.addresses()[0];
    (ui, address)
}

fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    // A refusal may come before all is sent.
    let _ = stream.write_all(text.as_bytes());
    stream
}

/// Status, head and body.
fn read(mut stream: TcpStream) -> (u16, String, String) {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn ask(address: SocketAddr, line: &str, fields: &str) -> (u16, String, String) {
    let end = format!("Connection: close\r\n{fields}\r\n");
    read(send(address, &format!("{line} HTTP/1.1\r\nHost: localhost\r\n{end}")))
}

fn get(address: SocketAddr, target: &str) -> (u16, String, String) {
    ask(address, &format!("GET {target}"), "")
}

#[test]
fn every_address_of_a_view_is_the_page() {
    let (ui, address) = start(None);
    let targets = ["/", "/?label=a&page=2", "/run/latest~1", "/run/a%2Fb", "/compare?a=1&b=2"];
    for target in targets.into_iter().chain(["/history?metric=os", "/hosts?label=rack1"]) {
        let (status, head, body) = get(address, target);
        assert_eq!((status, body.as_str()), (200, PAGE), "{target}");
        assert!(head.contains("content-type: text/html"), "{head}");
    }
    let (status, head, body) = ask(address, "HEAD /", "");
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.contains(&format!("content-length: {}", PAGE.len())), "{head}");
    ui.stop();
}

#[test]
fn data_are_those_of_the_view() {
    let (ui, address) = start(None);
    let of = RunsOf {
        host: "db 1".to_owned(),
        label: "é&".to_owned(),
        since: "2026-03-01".to_owned(),
        page: 3,
        ..RunsOf::default()
    };
    let history = HistoryOf { metric: "os.syscall{call=stat}".to_owned(), ..HistoryOf::default() };
    for (target, view) in [
        ("/api/runs", View::Runs(RunsOf::default())),
        ("/api/runs?host=db+1&label=%C3%A9%26&since=2026-03-01&until=&page=3", View::Runs(of)),
        ("/api/run/latest~1", View::Run("latest~1".to_owned())),
        ("/api/run/..%2Fetc%2Fpasswd", View::Run("../etc/passwd".to_owned())),
        ("/api/compare?b=2&a=1", View::Compare("1".to_owned(), "2".to_owned())),
        ("/api/history?metric=os.syscall%7Bcall%3Dstat%7D", View::History(history)),
        ("/api/hosts?label=rack1", View::Hosts("rack1".to_owned())),
    ] {
        let (status, head, body) = get(address, target);
        assert_eq!((status, body), (200, format!("{view:?}")), "{target}");
        assert!(head.contains("application/json") && head.contains("no-store"), "{head}");
    }
    ui.stop();
}

#[test]
fn malformed_requests_are_refused_in_one_line() {
    let (ui, address) = start(None);
    let long = format!("/api/hosts?label={}", "x".repeat(600));
    for (target, expected, part) in [
        ("/api/runs?page=x", 400, "page"),
        ("/api/runs?page=4294967296", 400, "page"),
        ("/api/runs?page=9999999", 400, "at most 1000000"),
        ("/api/runs?limit=9", 400, "unknown field `limit`"),
        ("/api/runs?label=a&label=b", 400, "duplicate field `label`"),
        ("/api/runs?kind=all", 400, "expected one of run, battery"),
        ("/api/runs?since=yesterday", 400, "such as 2026-03-01"),
        ("/api/runs?host=%1b%5b", 400, "control character"),
        ("/api/run/%ff", 400, "UTF-8"),
        ("/api/compare?a=1", 400, "missing field `b`"),
        ("/api/compare?a=1&b=", 400, "b: missing"),
        ("/api/history?metric=os&host=a&label=b", 400, "only one of them"),
        (long.as_str(), 400, "600 bytes, at most 512"),
        ("/api", 404, "no such page"),
        ("/api/run", 404, "no such page"),
        ("/run/a/b", 404, "no such page"),
        ("/report.html", 404, "no such page"),
        ("/api/run/missing", 404, "gone; bring it back"),
        ("/api/run/damaged", 422, "gone; bring it back"),
        ("/api/run/gone", 503, "bring it back at once"),
        ("/api/run/panic", 500, "this view failed"),
    ] {
        let (status, head, body) = get(address, target);
        assert_eq!(status, expected, "{target}: {body}");
        assert!(body.contains(part) && !body.contains('\n'), "{target}: {body}");
        assert!(body.starts_with("{\"error\":\""), "{target}: {body}");
        assert_eq!(head.contains("retry-after: 5"), expected == 503, "{head}");
    }
    assert_eq!(get(address, "/").0, 200, "it serves on");
    ui.stop();
}

#[test]
fn only_get_and_head_without_a_body() {
    let (ui, address) = start(None);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        for target in ["/", "/api/runs", "/no/such"] {
            let (status, head, _) = ask(address, &format!("{method} {target}"), "");
            assert_eq!(status, 405, "{method} {target}");
            assert!(head.contains("allow: get, head"), "{head}");
        }
    }
    assert_eq!(ask(address, "GET /", "Content-Length: 3\r\n").0, 400);
    assert_eq!(ask(address, "GET /", "Transfer-Encoding: chunked\r\n").0, 400);
    ui.stop();
}

#[test]
fn foreign_host_or_origin_is_refused() {
    let (ui, address) = start(None);
    let status = |host: &str, more: &str| {
        let text = format!("GET /api/runs HTTP/1.1\r\n{host}Connection: close\r\n{more}\r\n");
        read(send(address, &text)).0
    };
    for own in ["127.0.0.1:1", "[::1]", "localhost:3286", "BOX.example"] {
        assert_eq!(status(&format!("Host: {own}\r\n"), ""), 200, "{own}");
    }
    for foreign in ["evil.example", "localhost.evil.example", "", "box.example.evil"] {
        assert_eq!(status(&format!("Host: {foreign}\r\n"), ""), 403, "{foreign}");
    }
    assert_eq!(status("Host: localhost\r\nHost: localhost\r\n", ""), 403, "two");
    let origin = |origin: &str| status("Host: localhost:1\r\n", &format!("Origin: {origin}\r\n"));
    assert_eq!((origin("http://localhost:1"), origin("http://localhost:2")), (200, 403));
    assert_eq!(origin("null"), 403);
    assert_eq!(origin("http://localhost:1\r\nOrigin: http://evil.example"), 403, "two");
    let site = |target: &str, site: &str| {
        ask(address, &format!("GET {target}"), &format!("Sec-Fetch-Site: {site}\r\n")).0
    };
    assert_eq!(["same-origin", "none"].map(|it| site("/api/runs", it)), [200; 2]);
    assert_eq!((site("/api/runs", "cross-site"), site("/", "cross-site")), (403, 200), "a link");
    ui.stop();
}

#[test]
fn every_response_has_the_fields_for_a_browser() {
    let (ui, address) = start(Some(TOKEN));
    let answers = [get(address, "/"), get(address, "/no"), get(address, "/api/runs")];
    for (status, head, _) in answers.into_iter().chain([ask(address, "POST /", "")]) {
        for field in [
            "content-security-policy: default-src 'none'; script-src 'unsafe-inline'",
            "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cross-origin-opener-policy: same-origin",
        ] {
            assert!(head.contains(field), "{status} without {field}: {head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
    ui.stop();
}

#[test]
fn data_need_the_token_and_the_page_none() {
    let (ui, address) = start(Some(TOKEN));
    let with = |token: &str| ask(address, "GET /api/runs", &format!("Authorization: {token}\r\n"));
    assert_eq!(get(address, "/run/latest").0, 200, "it has no data");
    let (status, head, body) = get(address, "/api/runs");
    assert_eq!((status, head.contains("www-authenticate: bearer")), (401, true), "{head}");
    assert!(body.contains("fathom ui"), "{body}");
    assert_eq!(get(address, &format!("/api/runs?token={TOKEN}")).0, 401);
    let short = &TOKEN[1..];
    for wrong in [format!("Bearer {short}"), format!("Basic {TOKEN}"), "Bearer".to_owned()] {
        assert_eq!(with(&wrong).0, 401, "{wrong}");
    }
    assert_eq!(with(&format!("Bearer {TOKEN}")).0, 200);
    ui.stop();
}

#[test]
fn address_beyond_loopback_needs_a_token() {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let start = |token| {
        let options = UiOptions { listen: vec![any], ..options(token) };
        Ui::start(options, Arc::new(UiEcho::default()))
    };
    assert!(matches!(start(None), Err(ServiceError::NeedsToken { address }) if address == any));
    start(Some(TOKEN)).expect("it listens").stop();
}

#[test]
fn used_address_is_refused() {
    let (ui, address) = start(None);
    let again = UiOptions { listen: vec![address], ..options(None) };
    let again = Ui::start(again, Arc::new(UiEcho::default()));
    assert!(matches!(again, Err(ServiceError::Listen { .. })));
    ui.stop();
}

#[test]
fn large_heads_are_refused() {
    let (ui, address) = start(None);
    let field = |bytes: usize| format!("X-Long: {}\r\n", "x".repeat(bytes));
    assert_eq!(ask(address, "GET /", &field(8 << 10)).0, 200);
    assert_eq!(ask(address, "GET /", &field(64 << 10)).0, 431);
    let many: String = (0..80).map(|at| format!("X-{at}: 1\r\n")).collect();
    assert_eq!(ask(address, "GET /", &many).0, 431);
    assert_eq!(get(address, &format!("/?label={}", "x".repeat(70_000))).0, 431);
    assert_eq!(get(address, "/").0, 200, "it serves on");
    ui.stop();
}

#[test]
fn half_heads_and_idle_connections_keep_nobody_away() {
    let (ui, address) = start(None);
    let half = "GET / HTTP/1.1\r\nHost: loc";
    let mut strangers: Vec<TcpStream> = (0..300).map(|_| send(address, half)).collect();
    assert_eq!(get(address, "/").0, 200);
    let first = strangers[0].read(&mut [0]).unwrap_or(0);
    assert_eq!(first, 0, "the oldest is closed");
    drop(strangers);
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answered = |_| {
        let mut stream = send(address, request);
        stream.read_exact(&mut [0; 12]).expect("an answer");
        stream
    };
    let mut idle: Vec<TcpStream> = (0..300).map(answered).collect();
    let mut rest = Vec::new();
    let _ = idle[0].read_to_end(&mut rest);
    assert!(rest.ends_with(PAGE.as_bytes()), "an answered one");
    drop(idle);
    ui.stop();
}

#[test]
fn unread_data_have_a_limit_for_all_clients() {
    let (ui, address) = start(None);
    let large = "GET /api/run/large HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let unread = || {
        let mut stream = send(address, large);
        stream.read_exact(&mut [0; 12]).expect("an answer");
        stream
    };
    let [first, second] = [unread(), unread()];
    let (status, _, body) = get(address, "/api/run/large");
    assert_eq!(status, 503, "{} bytes", body.len());
    assert!(body.contains("too many clients have not read their data"), "{body}");
    assert_eq!(get(address, "/api/runs").0, 200, "small data have room");
    drop(first);
    // mood: the server sees the end of a connection some time after it
    let mut tries = (0..100).map(|_| {
        // mood: as above
        std::thread::sleep(std::time::Duration::from_millis(50));
        get(address, "/api/run/large")
    });
    let (_, _, body) = tries.find(|(status, ..)| *status == 200).expect("its memory is free");
    assert_eq!(body.len(), LARGE);
    drop(second);
    ui.stop();
}

#[test]
fn few_requests_wait_for_the_store() {
    let echo = Arc::new(UiEcho::default());
    let ui = Ui::start(options(None), Arc::clone(&echo) as Arc<dyn Views>).expect("it listens");
    let address = ui.addresses()[0];
    let slow = "GET /api/run/slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut streams: Vec<TcpStream> = (0..33).map(|_| send(address, slow)).collect();
    // All others wait, so the one that is refused is the first that has an answer.
    for stream in &streams {
        stream.set_nonblocking(true).expect("a socket");
    }
    let refused = loop {
        let ready = streams.iter().position(|stream| stream.peek(&mut [0]).is_ok());
        if let Some(at) = ready {
            break streams.swap_remove(at);
        }
        // mood: the one wait for the server
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    refused.set_nonblocking(false).expect("a socket");
    let (status, _, body) = read(refused);
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("32 requests wait for the store; try again"), "{body}");
    assert_eq!(get(address, "/").0, 200, "the page needs no store");
    echo.open();
    for stream in streams {
        stream.set_nonblocking(false).expect("a socket");
        assert_eq!(read(stream).0, 200);
    }
    ui.stop();
}

#[test]
fn stop_ends_open_connections() {
    let (ui, address) = start(None);
    let mut idle = send(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut first = [0; 12];
    idle.read_exact(&mut first).expect("an answer");
    ui.stop();
    let mut rest = Vec::new();
    // The end of the connection, in whatever way.
    let _ = idle.read_to_end(&mut rest);
    assert!(TcpStream::connect(address).is_err());
}
