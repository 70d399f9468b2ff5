//! Files and folders: bytes, ranges, validators, index pages, pipelining.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::{RunningService, skipped};

const SIZES: [usize; 7] = [0, 1, 4096, (32 << 10) - 1, (32 << 10) + 1, 100_000, (2 << 20) + 1];

#[test]
fn files_of_all_sizes_arrive_unchanged() {
    let service = RunningService::new();
    let mut client = service.connect();
    for size in SIZES {
        let name = format!("{size}.bin");
        let bytes = service.file(&name, size);
        for _ in 0..2 {
            let reply = client.get(&format!("/{name}"));
            assert_eq!(reply.status, 200);
            assert!(reply.body == bytes, "{size}");
            assert_eq!(reply.field("Content-Type"), Some("application/octet-stream"));
            assert!(reply.field("Date").is_some() && reply.field("Connection").is_none());
        }
        let reply = client.request("HEAD", &format!("/{name}"), &[]);
        assert_eq!(reply.field("Content-Length"), Some(&*size.to_string()));
    }
}

#[test]
fn cold_files_arrive_unchanged() {
    for cold in [false, true] {
        let service = RunningService::with(|options| options.cold = cold);
        let sizes = [1, 4096, 100_000, (5 << 20) + 1];
        let files = sizes.map(|size| (size, service.file(&size.to_string(), size)));
        for _ in 0..3 {
            let mut client = service.connect();
            client.request("POST", "/.fathom/evict", &["Content-Length: 0"]);
            for (size, bytes) in &files {
                assert!(client.get(&format!("/{size}")).body == *bytes, "{size}");
            }
        }
    }
}

#[test]
fn ranges_are_cut_from_the_file() {
    let service = RunningService::new();
    let bytes = service.file("a.css", 100_000);
    let mut client = service.connect();
    for (range, start, end) in [
        ("0-0", 0, 1),
        ("1-4096", 1, 4097),
        ("4095-", 4095, 100_000),
        ("-1", 99_999, 100_000),
        ("0-999999", 0, 100_000),
        ("100-70000", 100, 70_001),
    ] {
        let reply = client.request("GET", "/a.css", &[&format!("Range: bytes={range}")]);
        assert_eq!(reply.status, 206, "{range}");
        assert!(reply.body == bytes[start..end], "{range}");
        let expected = format!("bytes {start}-{}/100000", end - 1);
        assert_eq!(reply.field("Content-Range"), Some(&*expected));
    }
    let reply = client.request("GET", "/a.css", &["Range: bytes=100000-"]);
    assert_eq!((reply.status, reply.field("Content-Range")), (416, Some("bytes */100000")));
    let reply = client.request("GET", "/a.css", &["Range: bytes=0-1,5-6"]);
    assert_eq!((reply.status, reply.body.len()), (200, 100_000));
    let reply = client.request("HEAD", "/a.css", &["Range: bytes=0-1"]);
    assert_eq!(reply.status, 200);
}

#[test]
fn validators_follow_the_file() {
    let service = RunningService::new();
    service.file("a", 10);
    fathom_lab::settle(&service.path("a"));
    let mut client = service.connect();
    let first = client.get("/a");
    let tag = first.field("ETag").expect("a tag").to_owned();
    let date = first.field("Last-Modified").expect("a date").to_owned();
    let [same, since] = [format!("If-None-Match: {tag}"), format!("If-Modified-Since: {date}")];
    let range = format!("If-Range: {tag}");
    for field in [&same, &since] {
        let reply = client.request("GET", "/a", &[field]);
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{field}");
        assert_eq!(reply.field("ETag"), Some(&*tag));
        assert_eq!(client.request("HEAD", "/a", &[field]).status, 304);
    }
    assert_eq!(client.request("GET", "/a", &["Range: bytes=1-2", &range]).status, 206);
    // As long, and changed at once: only the times and the inode differ.
    std::fs::write(service.path("b"), [1; 10]).expect("a file");
    std::fs::rename(service.path("b"), service.path("a")).expect("a rename");
    let reply = client.request("GET", "/a", &[&same]);
    assert_eq!((reply.status, &reply.body[..]), (200, &[1; 10][..]));
    assert_eq!(client.request("GET", "/a", &["Range: bytes=1-2", &range]).status, 200);
    assert_eq!(client.request("GET", "/a", &[&format!("If-Match: {tag}")]).status, 412);
}

#[test]
fn absolute_symlinks_inside_are_not_followed() {
    let service = RunningService::new();
    service.file("file", 3);
    symlink(service.path("file"), service.path("absolute")).expect("a symlink");
    symlink("file", service.path("relative")).expect("a symlink");
    let mut client = service.connect();
    assert_eq!(["/relative", "/absolute"].map(|it| client.get(it).status), [200, 404]);
}

#[test]
fn index_page_omits_the_reserved_name() {
    let service = RunningService::new();
    for folder in [".fathom", "sub/.fathom"] {
        service.file(&format!("{folder}/file"), 3);
    }
    let mut client = service.connect();
    assert!(!client.get("/").text().contains(".fathom"));
    assert!(client.get("/sub/").text().contains(".fathom"));
    assert_eq!(client.get("/.fathom/file").status, 404);
}

#[test]
fn folders_have_an_index_page() {
    let service = RunningService::new();
    service.file("<b> &.txt", 5);
    service.file("sub/x.txt", 1);
    let mut client = service.connect();
    let page = client.get("/");
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    assert!(text.contains("<a href=\"./%3Cb%3E%20%26.txt\">&lt;b&gt; &amp;.txt</a>"), "{text}");
    assert_eq!(client.get("/%3Cb%3E%20%26.txt").body.len(), 5);
    let moved = client.get("/sub");
    assert_eq!((moved.status, moved.field("Location")), (301, Some("/sub/")));
    assert_eq!(client.get("//sub").field("Location"), Some("/sub/"));
    assert!(client.get("/sub/").text().contains("./x.txt"));
    let head = client.request("HEAD", "/sub/", &[]);
    assert_eq!(head.field("Content-Length"), client.get("/sub/").field("Content-Length"));
    assert_eq!(client.get("/sub/x.txt/").status, 404);
    assert_eq!(client.get("/none").status, 404);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let service = RunningService::new();
    let sizes = [70_000, 10, 0, 5 << 20, 4096];
    let files = sizes.map(|size| (size, service.file(&size.to_string(), size)));
    let mut client = service.connect();
    let mut requests = String::new();
    for _ in 0..5 {
        for (size, _) in &files {
            requests += &format!("GET /{size} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        requests += "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    }
    client.send(&requests);
    for round in 0..5 {
        for (size, bytes) in &files {
            assert!(client.reply().body == *bytes, "{size} of round {round}");
        }
        assert!(client.reply().text().contains("<title>/</title>"));
    }
}

#[test]
fn close_and_http_1_0_end_the_connection() {
    let service = RunningService::new();
    let bytes = service.file("a", 100_000);
    for (request, field) in [
        ("GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", Some("close")),
        ("GET /a HTTP/1.0\r\n\r\n", Some("close")),
    ] {
        let mut client = service.connect();
        client.send(request);
        let reply = client.reply();
        assert_eq!(reply.field("Connection"), field);
        assert!(reply.body == bytes);
        client.assert_closed();
    }
    let mut client = service.connect();
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.reply().field("Connection"), Some("keep-alive"));
    assert!(client.get("/a").body == bytes);
    // A client that has nothing more to send still gets its response.
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.finish_sending();
    assert!(client.reply().body == bytes);
    client.assert_closed();
}

#[test]
fn curl_resumes_a_download() {
    let service = RunningService::new();
    let bytes = service.file("a b.bin", 300_000);
    let part = service.outside("part");
    std::fs::write(&part, &bytes[..123_457]).expect("a file");
    let url = format!("http://{}/a%20b.bin", service.server().addresses()[0]);
    let mut curl = Command::new("curl");
    let curl = curl.args(["--silent", "--fail", "--continue-at", "-", "--output"]);
    match curl.arg(&part).arg(&url).status() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped("curl is not installed");
        }
        status => {
            assert!(status.expect("it runs").success());
            assert!(std::fs::read(&part).expect("a file") == bytes);
        }
    }
}
