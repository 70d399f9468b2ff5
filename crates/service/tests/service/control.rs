//! `/.fathom`: telemetry, listing, cache control, tokens and foreign names.

use fathom_service::{Token, token_from_file};

use crate::{RunningService, skipped};

#[test]
fn telemetry_counts_responses() {
    let service = RunningService::new();
    service.file("a", 100_000);
    let before = service.json("/.fathom/telemetry");
    let mut client = service.connect();
    for _ in 0..10 {
        client.get("/a");
    }
    client.get("/none");
    // On the same connection: a response is counted once it has left, and before the next request.
    let after = client.get("/.fathom/telemetry").body;
    let after: serde_json::Value = serde_json::from_slice(&after).expect("JSON");
    let count = |name: &str| after[name].as_u64().expect(name) - before[name].as_u64().expect(name);
    assert_eq!((count("responses"), count("responses_ok")), (11, 10));
    let error = client.get("/none").body.len() as u64;
    assert_eq!(count("bytes_sent"), 1_000_000 + error);
    assert!(count("bytes_on_wire") > 1_000_000 + error);
    for name in ["at_ns", "cpu_ns", "busy_ns"] {
        assert!(count(name) > 0, "{name}");
    }
    for name in ["pid", "resident_bytes", "descriptors", "connections", "threads"] {
        assert!(after[name].as_u64() > Some(0), "{name}");
    }
    assert!(after["run_queue_wait_ns"].is_u64() && after["congestion"].is_string());
    assert!(after["links"].as_array().expect("links").iter().any(|link| link["name"] == "lo"));
    assert_eq!(after["cold"], false);
}

#[test]
fn metrics_and_health_are_for_monitoring() {
    let service = RunningService::new();
    let mut client = service.connect();
    client.get("/none");
    assert_eq!(client.get("/.fathom/health").text(), "ok\n");
    let text = client.get("/.fathom/metrics").text();
    for part in
        ["\nfathom_requests_total{status=\"404\"} 1\n", "\nfathom_cpu_seconds_total ", "\n# EOF\n"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let host = service.json("/.fathom/host");
    assert!(host["cpu"]["logical"].as_u64() > Some(0), "{host}");
}

#[test]
fn list_has_every_file() {
    let service = RunningService::new();
    let names = ["b", "a b/ü", "a b/c", "z/y/x"];
    for name in names {
        service.file(name, name.len());
    }
    let list = service.json("/.fathom/list");
    let files = list["files"].as_array().expect("files");
    let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().expect("text")).collect();
    assert_eq!(paths, ["a%20b/c", "a%20b/%C3%BC", "b", "z/y/x"]);
    for (path, file) in paths.iter().zip(files) {
        let length = service.get(&format!("/{path}")).body.len() as u64;
        assert_eq!(file["bytes"].as_u64(), Some(length));
    }
    assert_eq!(list["truncated"], false);
}

/// Asks the service to change what is in memory; the bytes that are afterwards.
fn change_cache(service: &RunningService, what: &str) -> Option<u64> {
    let target = format!("/.fathom/{what}");
    let reply = service.connect().request("POST", &target, &["Content-Length: 0"]);
    assert_eq!(reply.status, 200);
    let json: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
    assert_eq!((&json["files"], &json["bytes"]), (&3.into(), &CACHED_BYTES.into()));
    json["resident_bytes_after"].as_u64()
}

const CACHED_BYTES: u64 = (3 << 20) + 5000;

fn cached_service() -> RunningService {
    let service = RunningService::new();
    for (name, bytes) in [("a", 3 << 20), ("sub/b", 5000), ("empty", 0)] {
        service.file(name, bytes);
    }
    service
}

#[test]
fn evict_and_warm_count_every_file() {
    let service = cached_service();
    for what in ["warm", "evict", "warm"] {
        let resident = change_cache(&service, what);
        assert!(resident.is_none_or(|bytes| bytes <= CACHED_BYTES), "{what}: {resident:?}");
        // It is known where the kernel says it of each file.
        let file = std::fs::File::open(service.path("a")).expect("a file");
        let state = fathom_fileio::residency::residency_of(&file).state;
        let is_known = !matches!(state, fathom_fileio::residency::ResidencyState::Unknown { .. });
        assert_eq!(resident.is_some(), is_known, "{what}");
    }
}

#[test]
#[ignore = "lab: what stays in memory is up to the kernel"]
fn evict_and_warm_are_proved() {
    let service = cached_service();
    assert_eq!(change_cache(&service, "warm"), Some(CACHED_BYTES));
    if !is_on_device(&service.path("a")) {
        return skipped("the file system does not evict");
    }
    assert_eq!(change_cache(&service, "evict"), Some(0));
    let file = std::fs::File::open(service.path("a")).expect("a file");
    assert_eq!(fathom_fileio::residency::residency_of(&file).cached, 0);
    assert_eq!(change_cache(&service, "warm"), Some(CACHED_BYTES));
}

fn is_on_device(path: &std::path::Path) -> bool {
    fathom_fileio::inspect(path).expect("a file").is_on_device() == Some(true)
}

#[test]
#[ignore = "lab: what leaves memory is up to the kernel"]
fn cold_service_evicts_after_each_response() {
    let service = RunningService::with(|options| options.cold = true);
    service.file("large", 3 << 20);
    service.file("small", 4096);
    if !is_on_device(&service.path("large")) {
        return skipped("the file system does not evict");
    }
    let mut client = service.connect();
    // Dirty pages stay: a cold service only reads.
    client.request("POST", "/.fathom/evict", &["Content-Length: 0"]);
    for name in ["large", "small"] {
        let file = std::fs::File::open(service.path(name)).expect("a file");
        assert_eq!(client.get(&format!("/{name}")).status, 200);
        while fathom_fileio::residency::residency_of(&file).cached > 0 {
            // A look holds the pages for a moment: without a pause none could leave.
            let missed = &service.json("/.fathom/telemetry")["evictions_missed"];
            let left = fathom_fileio::residency::residency_of(&file);
            assert!(missed == 0 || left.cached == 0, "{name}: {missed} missed, {left:?}");
        }
    }
}

#[test]
fn methods_and_lengths_are_checked() {
    let service = RunningService::new();
    service.file("a", 1);
    for (method, target, fields, status, allow) in [
        ("POST", "/.fathom/evict", "X: y", 411, None),
        ("POST", "/.fathom/evict", "Content-Length: 5", 400, None),
        ("GET", "/.fathom/evict", "X: y", 405, Some("POST")),
        ("POST", "/.fathom/list", "Content-Length: 0", 405, Some("GET, HEAD")),
        ("POST", "/a", "Content-Length: 0", 405, Some("GET, HEAD")),
        ("GET", "/.fathom/none", "X: y", 404, None),
        ("GET", "/.fathom", "X: y", 404, None),
    ] {
        let reply = service.connect().request(method, target, &[fields]);
        assert_eq!((reply.status, reply.field("Allow")), (status, allow), "{method} {target}");
    }
}

#[test]
fn foreign_names_are_refused() {
    let service = RunningService::with(|options| options.names = vec!["files.example".to_owned()]);
    service.file("a", 1);
    let status = |target: &str, host: &str, origin: Option<&str>| {
        let origin = origin.map_or(String::new(), |origin| format!("Origin: {origin}\r\n"));
        let mut client = service.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{origin}\r\n"));
        client.reply().status
    };
    for (host, origin, expected) in [
        ("127.0.0.1:1", None, 200),
        ("[::1]", None, 200),
        ("files.example", None, 200),
        ("files.example", Some("http://files.example"), 200),
        ("evil.example", None, 403),
        ("localhost", Some("http://evil.example"), 403),
        ("localhost", Some("null"), 403),
        ("localhost", Some("https://localhost"), 403),
    ] {
        assert_eq!(status("/.fathom/telemetry", host, origin), expected, "{host} {origin:?}");
        assert_eq!(status("/a", host, origin), expected, "{host} {origin:?}");
    }
    let mut client = service.connect();
    client.send("GET /a HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply().status, 200, "a Host is not required of HTTP/1.0");
}

#[test]
fn token_allows_any_name_for_files() {
    let token = Token::new("0123456789abcdef0123456789abcdef");
    let service = RunningService::with(|options| options.token = Some(token));
    service.file("a", 1);
    let mut client = service.connect();
    for (target, expected) in [("/a", 200), ("/.fathom/list", 403)] {
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: proxy.example\r\n\
             Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n"
        ));
        assert_eq!(client.reply().status, expected, "{target}");
    }
}

#[test]
fn token_is_required_for_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let token = token_from_file(&path).expect("a token");
    let text = std::fs::read_to_string(&path).expect("a file");
    let service = RunningService::with(|options| options.token = Some(token));
    service.file("a", 10);
    let right = format!("Authorization: Bearer {}", text.trim());
    let wrong = format!("Authorization: Bearer {}", "0".repeat(64));
    let mut client = service.connect();
    for target in ["/a", "/", "/none", "/.fathom/health", "/.fathom/telemetry"] {
        for fields in [&[][..], &[&*wrong], &["Authorization: Basic YTpi"]] {
            let reply = client.request("GET", target, fields);
            assert_eq!(reply.status, 401, "{target} {fields:?}");
            assert_eq!(reply.field("WWW-Authenticate"), Some("Bearer"));
        }
        let status = client.request("GET", target, &[&right]).status;
        assert_eq!(status, if target == "/none" { 404 } else { 200 }, "{target}");
    }
    let metrics = client.request("GET", "/.fathom/metrics", &[&right]).text();
    assert!(!metrics.contains(text.trim()));
}
