//! Nothing outside the folder is served.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::Service;

const CANARY: &[u8] = b"canary";

#[test]
fn no_target_reaches_outside() {
    let service = Service::new();
    service.file("sub/in", 3);
    std::fs::write(service.outside("canary"), CANARY).expect("a file");
    let outside = service.outside("canary");
    let absolute = outside.to_str().expect("UTF-8");
    symlink("../canary", service.path("relative")).expect("a symlink");
    symlink(absolute, service.path("absolute")).expect("a symlink");
    symlink("..", service.path("up")).expect("a symlink");
    symlink("/", service.path("slash")).expect("a symlink");
    symlink("/proc/self/root", service.path("magic")).expect("a symlink");
    symlink("sub/in", service.path("inside")).expect("a symlink");
    symlink("sub/../sub/in", service.path("dots")).expect("a symlink");
    let targets = [
        "/../canary",
        "/sub/../../canary",
        "/%2e%2e/canary",
        "/%2E%2E%2fcanary",
        "/..%2fcanary",
        "/sub/%2e%2e/%2e%2e/canary",
        "/./../canary",
        "/relative",
        "/absolute",
        "/up/canary",
        "/slash/etc/passwd",
        "/magic/etc/passwd",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/..%00/canary",
        "/%c0%ae%c0%ae/canary",
        "/..;/canary",
        "/..\\canary",
        "/sub/in/../in",
        "/%252e%252e/canary",
    ];
    for target in targets.iter().map(|target| (*target).to_owned()).chain([absolute.to_owned()]) {
        for method in ["GET", "HEAD"] {
            let mut client = service.connect();
            let reply = client.request(method, &target, &["Connection: close"]);
            assert!(matches!(reply.status, 400 | 404), "{target}: {}", reply.status);
            let rest = client.rest();
            for bytes in [&reply.body, &rest] {
                assert!(!bytes.windows(6).any(|six| six == CANARY), "{target}");
            }
        }
    }
    for target in ["/inside", "/dots", "/sub//in"] {
        assert_eq!(service.get(target).body.len(), 3, "{target}");
    }
    let listed = service.json("/.fathom/list").to_string();
    assert!(listed.contains("sub/in") && !listed.contains("canary"), "{listed}");
}

#[test]
fn only_regular_files_are_served() {
    let service = Service::new();
    let made = Command::new("mkfifo").arg(service.path("fifo")).status();
    assert!(made.expect("mkfifo").success());
    let _socket = std::os::unix::net::UnixListener::bind(service.path("socket")).expect("one");
    symlink("/dev/zero", service.path("zero")).expect("a symlink");
    for target in ["/fifo", "/socket", "/zero"] {
        assert_eq!(service.get(target).status, 404, "{target}");
    }
}

#[test]
fn renamed_symlinks_never_lead_outside() {
    let service = Service::new();
    std::fs::create_dir(service.outside("secret")).expect("a folder");
    std::fs::write(service.outside("secret/file"), CANARY).expect("a file");
    std::fs::create_dir(service.path("a")).expect("a folder");
    std::fs::write(service.path("a/file"), "inside").expect("a file");
    symlink(service.outside("secret"), service.path("b")).expect("a symlink");
    let (a, b) = (service.path("a"), service.path("b"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).expect("an exchange");
            }
        });
        let mut client = service.connect();
        let mut found = 0;
        for _ in 0..20_000 {
            let reply = client.get("/a/file");
            assert_ne!(reply.body, CANARY);
            found += u32::from(reply.body == b"inside");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(found > 0, "never found, so that the race was not tested");
    });
}
