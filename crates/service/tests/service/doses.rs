//! What a load uses to find and prove a bottleneck: the source, direct reads of the device, doses.

use fathom_measure::clock::monotonic_raw_ns;

use crate::{RunningService, skipped};

#[test]
fn source_sends_the_bytes_asked_for() {
    let service = RunningService::new();
    let mut client = service.connect();
    let before = service.json("/.fathom/telemetry");
    for bytes in [0, 1, 300_000, 5_000_000] {
        assert_eq!(client.get(&format!("/.fathom/source/{bytes}")).body.len(), bytes);
    }
    assert_eq!(client.request("HEAD", "/.fathom/source/9", &[]).field("Content-Length"), Some("9"));
    assert_eq!(client.get("/.fathom/source/7/reno").body, b".......");
    let after = service.json("/.fathom/telemetry");
    assert_eq!(before["responses"], after["responses"], "no work");
    for target in ["", "x", "+1", "1073741825", "1/none", "1/", "1/reno/x"] {
        assert_eq!(client.get(&format!("/.fathom/source/{target}")).status, 400, "{target}");
    }
}

#[test]
fn device_is_read_for_the_time_asked_for() {
    let service = RunningService::new();
    let length = [&["Content-Length: 0"][..]].concat();
    let mut client = service.connect();
    let mut read = |ms: &str| client.request("POST", &format!("/.fathom/disk/{ms}"), &length);
    let empty: serde_json::Value = serde_json::from_slice(&read("50").body).expect("JSON");
    assert!(empty["unavailable"].is_string(), "{empty}");
    service.file("a", 3_000_001);
    service.file("b/c", 7);
    service.file("empty", 0);
    let rate: serde_json::Value = serde_json::from_slice(&read("200").body).expect("JSON");
    if let Some(why) = rate["unavailable"].as_str() {
        return skipped(&format!("no direct reads here: {why}"));
    }
    let slots = rate["slots"].as_array().expect("slots");
    let bytes: u64 = slots.iter().filter_map(serde_json::Value::as_u64).sum();
    let files = rate["files"].as_u64().expect("files");
    assert_eq!(slots.len(), 10, "{rate}");
    // Each file as whole as it is long: on average half of 3,000,008 bytes, and never a block more.
    assert!(bytes <= files * 3_000_001, "{rate}");
    assert_eq!(rate["slot_ns"], 20_000_000);
    for time in ["", "0", "60001", "1.5", "x"] {
        assert_eq!(read(time).status, 400, "{time}");
    }
    assert_eq!(client.get("/.fathom/disk/50").status, 405);
}

#[test]
fn doses_add_known_work_to_a_request() {
    let service = RunningService::with(|options| options.threads = Some(1));
    let bytes = service.file("a", 100_000);
    let mut client = service.connect();
    let filled = client.request("GET", "/a", &["Fathom-Dose: wire_bytes=50000"]);
    assert_eq!((filled.body.len(), &filled.body[..100_000]), (150_000, &bytes[..]));
    let part = ["Fathom-Dose: wire_bytes=50000", "Range: bytes=0-9"];
    assert_eq!(client.request("GET", "/a", &part).body.len(), 10, "a part is as asked for");
    let head = client.request("HEAD", "/a", &["Fathom-Dose: wire_bytes=50000"]);
    assert_eq!(head.field("Content-Length"), Some("150000"), "as of GET");
    let cpu_ns = |service: &RunningService| {
        service.json("/.fathom/telemetry")["cpu_ns"].as_u64().expect("a time")
    };
    let before_ns = cpu_ns(&service);
    (0..10).for_each(|_| drop(client.request("GET", "/a", &["Fathom-Dose: cpu_ns=5000000"])));
    assert!(cpu_ns(&service) - before_ns >= 50_000_000);
    let read = |service: &RunningService| service.json("/.fathom/telemetry")["read_bytes"].as_u64();
    let before = read(&service);
    assert_eq!(client.request("GET", "/a", &["Fathom-Dose: disk_bytes=1000000"]).body, bytes);
    let has_device = service.json("/.fathom/telemetry")["device"].is_object();
    if let (Some(before), Some(after), true) = (before, read(&service), has_device) {
        assert!(after - before >= 1_000_000, "{before} to {after}");
    }
    for value in ["", "cpu_ns=100000001", "cpu_ns=1;serial_ns=1", "watts=1"] {
        let field = format!("Fathom-Dose: {value}");
        assert_eq!(client.request("GET", "/a", &[&field]).status, 400, "{value}");
    }
    client.send("GET /a HTTP/1.1\r\nHost: other.example\r\nFathom-Dose: cpu_ns=1\r\n\r\n");
    assert_eq!(client.reply().status, 403);
}

#[test]
fn request_that_waits_for_a_lane_keeps_its_conditions() {
    let service = RunningService::new();
    let bytes = service.file("a", 100);
    let mut client = service.connect();
    for (fields, status) in [
        (&["Range: bytes=10-19"][..], 206),
        (&["Range: bytes=10-19", "If-Range: \"other\""], 200),
        (&["If-None-Match: *"], 304),
        (&["If-Match: \"other\""], 412),
        (&["If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"], 304),
        (&["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], 412),
    ] {
        // Both lanes: the serial one hands it on.
        for dose in ["Fathom-Dose: disk_bytes=1", "Fathom-Dose: serial_ns=1"] {
            let fields = [fields, &[dose]].concat();
            let reply = client.request("GET", "/a", &fields);
            assert_eq!(reply.status, status, "{fields:?}");
            if status == 206 {
                assert_eq!(reply.body, bytes[10..20]);
            }
        }
    }
    let head = client.request("HEAD", "/a", &["Fathom-Dose: disk_bytes=1", "Range: bytes=1-2"]);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn serial_section_has_one_request_at_a_time() {
    let service = RunningService::with(|options| options.serial_ns = 5_000_000);
    service.file("a", 10);
    let begun_ns = monotonic_raw_ns();
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let mut client = service.connect();
                (0..4).for_each(|_| assert_eq!(client.get("/a").status, 200));
            });
        }
    });
    // mood: a lower bound, which a slow machine only exceeds
    assert!(monotonic_raw_ns() - begun_ns >= 100_000_000, "20 requests of 5 ms");
    assert_eq!(service.json("/.fathom/telemetry")["serial_ns"], 5_000_000);
}
