//! Answers that are cut, malformed or not what was asked for.

use super::*;

#[test]
fn truncated_bodies_have_no_name() {
    let server = FetchServer::start(move |_, head, stream| {
        let answer = match head.split(' ').nth(1) {
            Some("/length") => "200 x\r\nContent-Length: 9\r\n\r\n1234",
            Some("/chunked") => "200 x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n",
            Some("/digits") => "200 x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n\r\n\r\n",
            Some("/gzip") => "200 x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n1234",
            Some("/transfer") => "200 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            Some("/nowhere") => "302 x\r\nContent-Length: 0\r\n\r\n",
            Some("/huge") => "200 x\r\nContent-Length: 9223372036854775808\r\n\r\n",
            Some("/number") => "200 x\r\nContent-Length: 12abc\r\n\r\n1234",
            Some("/list") => "200 x\r\nContent-Length: 6, 6\r\n\r\n123456",
            Some("/both") => {
                "200 x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n\
                 0\r\n\r\n"
            }
            Some("/range") => {
                "206 x\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\n1234"
            }
            Some("/head") => "x",
            _ => "200 x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n2\r\n56\r\n0\r\n\r\n",
        };
        let _ = write!(stream, "HTTP/1.1 {answer}");
    });
    let env = new_env();
    for (path, why) in [
        ("/length", "body truncated at byte 4, expected 9"),
        ("/chunked", "body truncated after 4 bytes, no last chunk"),
        ("/digits", "malformed response: chunk size; `curl -v`"),
        ("/gzip", "Content-Encoding: gzip, which was not asked for; `curl --compressed"),
        ("/transfer", "Transfer-Encoding: gzip, chunked, which was not asked for; `curl"),
        ("/nowhere", "status 302 (redirect) without Location; nothing is kept"),
        ("/huge", "implausible Content-Length: 9223372036854775808, a file has less than 2^63;"),
        ("/number", "malformed response: Content-Length: 12abc"),
        ("/range", "status 206, expected 200"),
        ("/head", "malformed response: status line: HTTP/1.1 x"),
    ] {
        let line = format!("fetch {} -o to --retries 0", server.url(path));
        assert_failure(&env.exec(&line), &[path, why]);
        assert!(!names(&env).contains(&path[1..].to_owned()), "{path}");
    }
    assert_eq!(
        names(&env),
        [
            "chunked.part",
            "chunked.part.state",
            "digits.part",
            "digits.part.state",
            "length.part",
            "length.part.state"
        ]
    );
    for name in ["whole", "list", "both"] {
        env.stdout(&format!("fetch {} -o to", server.url(&format!("/{name}"))));
        assert_eq!(content(&env, name), b"123456", "{name}");
    }
}

#[test]
fn wrong_ranges_are_cut_or_not_used() {
    let bytes: &[u8] = generated(6, 100_000).leak();
    // An answer to bytes 35904-99999, and why the next request is without a range, if it is.
    for (status, range, from, why) in [
        (206, "bytes 500-99999/100000", 500, ""),
        (206, "bytes 35904-99999/*", 35_904, ""),
        (206, "bytes 40001-99999/*", 40_001, "sent bytes 40001-99999 instead of 35904-99999"),
        (206, "bytes 9-5/*", 35_904, "malformed response: Content-Range: bytes 9-5/*"),
        (416, "bytes */100000", 99_999, "416 (range not satisfiable) for bytes 35904-99999"),
        (416, "bytes */9", 99_999, "status 416: the file has 9 bytes now"),
    ] {
        for receive in ["copy", "mmap", "splice"] {
            let server = FetchServer::start(move |number, head, stream| {
                let (head, body) = part(head, bytes, "\"a\"");
                let (head, body) = match (number, head.starts_with("HTTP/1.1 206")) {
                    (_, true) => {
                        let size = bytes.len() - from;
                        let fields = format!("Content-Length: {size}\r\nETag: \"a\"\r\n\r\n");
                        let line = format!("HTTP/1.1 {status} x\r\nContent-Range: {range}\r\n");
                        (line + &fields, &bytes[from..])
                    }
                    (0, _) => (head, &body[..40_000]),
                    _ => (head, body),
                };
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            });
            let env = new_env();
            let line = format!("fetch {} -o to --receive {receive}", server.url("/f"));
            let output = env.succeed(&line);
            assert_contains(&text(&output.stderr), &["body truncated at byte 40000", why]);
            assert!(content(&env, "f") == bytes, "{range} {receive}");
            let has_range = |head: &String| field(head, "Range").is_some();
            let ranges: Vec<bool> = server.heads().iter().map(has_range).collect();
            let expected: &[bool] =
                if why.is_empty() { &[false, true] } else { &[false, true, false] };
            assert_eq!(ranges, expected, "{range} {receive}");
        }
    }
}

#[test]
fn ctrl_c_in_a_pause_sends_no_request() {
    let server = FetchServer::start(move |_, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 503 x\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n");
    });
    let env = new_env();
    let line = format!("fetch {} -o to --retries 1000", server.url("/f"));
    let child = spawn_piped(env.command(&line));
    wait_until("no request", || server.heads().len() == 1);
    send(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert_contains(&text(&output.stderr), &["stopped: nothing is kept"]);
    assert_eq!(server.heads().len(), 1);
}

#[test]
fn page_without_the_tag_of_the_file_does_not_replace_it() {
    let bytes: &[u8] = generated(6, 2 << 20).leak();
    let server = FetchServer::start(move |number, head, stream| match number {
        0 => {
            let (head, body) = part(head, bytes, "\"a\"");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..9]));
        }
        1 => _ = stream.write_all(b"HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nbusy!"),
        _ => send_file(head, stream, bytes, "\"a\""),
    });
    let env = new_env();
    let output = env.succeed(&format!("fetch {} -o to", server.url("/f")));
    assert_contains(&text(&output.stderr), &["without the ETag of the file (if", "retry 2"]);
    assert!(content(&env, "f") == bytes);
    assert_eq!(field(&server.heads()[2], "Range"), Some("bytes=0-2097151"));
}

#[test]
fn other_content_under_the_same_tag_is_started_anew() {
    let bytes: &[u8] = generated(6, 100_000).leak();
    let other: &[u8] = generated(7, 100_000).leak();
    let server = FetchServer::start(move |number, head, stream| match number {
        0 => {
            let (head, body) = part(head, other, "\"a\"");
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body[..9000]));
        }
        _ => send_file(head, stream, bytes, "\"a\""),
    });
    let env = new_env();
    let output = env.succeed(&format!("fetch {} -o to", server.url("/f")));
    assert_contains(&text(&output.stderr), &["other bytes under the same ETag; retry 2"]);
    assert!(content(&env, "f") == bytes);
    let ranges: Vec<String> = server
        .heads()
        .iter()
        .map(|head| field(head, "Range").unwrap_or("all").to_owned())
        .collect();
    assert_eq!(ranges, ["all", "bytes=4904-99999", "all"]);
}

#[test]
fn tampered_bytes_before_the_second_gap_are_found() {
    let bytes: &[u8] = generated(3, 24 << 20).leak();
    for receive in ["copy", "mmap", "splice"] {
        let server = FetchServer::start(move |_, head, stream| match field(head, "X-Stall") {
            Some(_) => stall(head, stream, (bytes, 5 << 20), "\"a\""),
            None => send_file(head, stream, bytes, "\"a\""),
        });
        let env = new_env();
        let line = format!("fetch {} -o to --connections 2 --receive {receive}", server.url("/f"));
        kill_after(&env, &format!("{line} -H X-Stall:1"), 10 << 20);
        let state: serde_json::Value =
            serde_json::from_slice(&content(&env, "f.part.state")).expect("a state");
        let gap = state["missing"][1][0].as_u64().expect("a second gap") as usize;
        let mut part = content(&env, "f.part");
        part[gap - 10..gap].fill(0);
        std::fs::write(env.file("to/f.part"), part).expect("a file");
        let output = env.succeed(&line);
        assert_contains(&text(&output.stderr), &["other bytes under the same ETag; retry 1"]);
        assert!(content(&env, "f") == bytes, "{receive}");
    }
}

#[test]
fn shorter_parts_are_progress() {
    let bytes: &[u8] = generated(6, 100_000).leak();
    // Also less than what is compared.
    for (receive, most) in [("copy", 1000), ("mmap", 9000), ("splice", 30_000)] {
        let server = FetchServer::start(move |number, head, stream| {
            let range = field(head, "Range").and_then(|it| it.strip_prefix("bytes="));
            let (begin, end) = range.and_then(|it| it.split_once('-')).unwrap_or(("0", "99999"));
            let last = begin.parse().map_or(0, |begin: usize| begin + most - 1);
            let last = last.min(end.parse().expect("a number"));
            let asked = range.map_or_else(String::new, |range| format!("bytes={range}"));
            let head = head.replace(&asked, &format!("bytes={begin}-{last}"));
            let (head, body) = part(&head, bytes, "\"a\"");
            let body = if number == 0 { &body[..40_000] } else { body };
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        });
        let env = new_env();
        let output = env.succeed(&format!("fetch {} -o to --receive {receive}", server.url("/f")));
        let shown = text(&output.stderr);
        assert_contains(&shown, &["retry 1"]);
        assert!(!shown.contains("retry 2"), "{shown}");
        assert!(content(&env, "f") == bytes, "{receive}");
        let asked: Vec<String> =
            (35_904..100_000).step_by(most).map(|from| format!("bytes={from}-99999")).collect();
        let heads = server.heads();
        let ranges: Vec<_> = heads.iter().filter_map(|head| field(head, "Range")).collect();
        assert_eq!(ranges, asked, "{receive}");
    }
}

#[test]
fn unusable_ranges_are_not_a_way_to_resume() {
    let bytes: &[u8] = generated(6, 100_000).leak();
    for has_206 in [true, false] {
        let server = FetchServer::start(move |_, head, stream| {
            let (head, body) = match field(head, "Range") {
                // Not what was asked for.
                Some(_) if has_206 => {
                    let asked = "If-Range: \"a\"\r\nRange: bytes=90000-99999\r\n";
                    part(asked, bytes, "\"a\"")
                }
                _ => (part("", bytes, "\"a\"").0, &bytes[..40_000]),
            };
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        });
        let env = new_env();
        let output = env.exec(&format!("fetch {} -o to --retries 3", server.url("/f")));
        let end = "40000 of 100000 bytes are in to/f.part; the server has no usable ranges: the \
                   next run starts anew";
        assert_status(&output, 1);
        let shown = text(&output.stderr);
        assert_contains(&shown, &["body truncated at byte 40000", end]);
        assert!(!shown.contains("again to resume"), "{shown}");
    }
}
