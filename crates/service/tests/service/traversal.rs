//! Nothing outside the folder is served, also while it is renamed. The corpus has the targets.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, makedev, mknodat, renameat_with};

use crate::client::LabClient;
use crate::{RunningService, scaled, skipped, write_section};

pub(crate) const CANARY: &[u8] = b"canary";
/// Requests sent at a time.
const PIPELINED: usize = 10;

#[test]
fn listing_has_nothing_from_outside() {
    let service = RunningService::new();
    service.file("sub/in", 3);
    fs::write(service.outside("canary"), CANARY).expect("a file");
    for (target, name) in [("../canary", "file"), ("..", "up"), ("/", "slash"), ("sub", "folder")] {
        symlink(target, service.path(name)).expect("a symlink");
    }
    let listed = service.json("/.fathom/list").to_string();
    assert!(listed.contains("sub/in") && !listed.contains("canary"), "{listed}");
    assert!(!listed.contains("folder/in") && !listed.contains("etc"), "{listed}");
}

#[test]
fn devices_are_not_served() {
    let service = RunningService::new();
    for (name, minor) in [("null", 3), ("zero", 5), ("random", 8)] {
        let path = service.path(name);
        let mode = Mode::from_raw_mode(0o666);
        if mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(1, minor)).is_err() {
            return skipped("making devices needs root");
        }
        for method in ["GET", "HEAD"] {
            let status = service.connect().request(method, &format!("/{name}"), &[]).status;
            assert_eq!(status, 404, "{method} {name}");
        }
    }
}

#[test]
fn unreadable_files_are_forbidden() {
    // A thread of its own, because the user for files is that of a thread and of those it starts.
    std::thread::spawn(|| {
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        // SAFETY: the call has no pointers. Without root it changes nothing.
        let act_as = |user: libc::uid_t| unsafe { libc::syscall(libc::SYS_setfsuid, user) };
        let service = RunningService::with(|options| {
            let root = &options.folder;
            fs::create_dir(root.join("closed")).expect("a folder");
            for name in ["a", "closed/in"] {
                fs::write(root.join(name), CANARY).expect("a file");
            }
            mode(root.parent().expect("a parent"), 0o755);
            mode(&root.join("a"), 0);
            mode(&root.join("closed"), 0);
            // Root can read every file.
            act_as(65534);
        });
        act_as(0);
        for target in ["/a", "/closed/in", "/closed/"] {
            let mut client = service.connect();
            for method in ["GET", "HEAD"] {
                assert_eq!(client.request(method, target, &[]).status, 403, "{method} {target}");
            }
        }
        mode(&service.path("closed"), 0o700);
    })
    .join()
    .expect("no panic");
}

#[test]
fn mounts_below_the_folder_are_not_entered() {
    // A thread of its own, because the namespace of mounts is that of a thread.
    std::thread::spawn(|| {
        let none = std::ptr::null();
        // SAFETY: only this thread, and those that it starts, leave the namespace of the process.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return skipped("a namespace of mounts needs root");
        }
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: the path ends with NUL, and what is null is not used for this.
        let made = unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) };
        assert_eq!(made, 0, "a private namespace");
        let service = RunningService::new();
        let place = service.path("mount");
        fs::create_dir(&place).expect("a folder");
        let path = std::ffi::CString::new(place.as_os_str().as_encoded_bytes()).expect("no NUL");
        let tmpfs = c"tmpfs".as_ptr();
        // SAFETY: all texts end with NUL and outlive the call.
        let made = unsafe { libc::mount(tmpfs, path.as_ptr(), tmpfs, 0, none.cast()) };
        assert_eq!(made, 0, "a mount");
        fs::write(place.join("canary"), CANARY).expect("a file");
        let statuses = ["/mount/canary", "/mount/", "/mount"].map(|at| service.get(at).status);
        // SAFETY: as above.
        let ended = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        assert_eq!((statuses, ended), ([404, 404, 404], 0));
    })
    .join()
    .expect("no panic");
}

/// Two paths that are exchanged while a target is asked for.
struct Race {
    target: String,
    one: PathBuf,
    other: PathBuf,
}

/// The races below a folder of the service. `secret` and `outside` lie beside the served folder.
fn races(service: &RunningService, folder: &str, number: usize) -> Vec<Race> {
    let make = |path: &Path, content: &[u8]| {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("a file");
    };
    let inside = |name: &str| service.path(folder).join(name);
    let secret = service.outside("secret");
    make(&secret.join("file"), CANARY);
    make(&secret.join("y/file"), CANARY);
    let depth = folder.split('/').filter(|part| !part.is_empty()).count();
    let up = "../".repeat(depth + 1);
    let mut races = Vec::new();
    let mut add = |target: &str, one: PathBuf, other: PathBuf| {
        races.push(Race { target: format!("/{folder}{target}"), one, other });
    };
    // A folder and a symlink to one outside.
    for (name, target) in [("absolute", secret.clone()), ("relative", format!("{up}secret").into())]
    {
        make(&inside(name).join("file"), b"inside");
        symlink(target, inside(&format!("{name}-link"))).expect("a symlink");
        add(&format!("{name}/file"), inside(name), inside(&format!("{name}-link")));
    }
    // A file and a symlink to one outside.
    make(&inside("file"), b"inside");
    symlink(secret.join("file"), inside("file-link")).expect("a symlink");
    add("file", inside("file"), inside("file-link"));
    // Dots behind what may be a symlink: they then begin outside.
    make(&inside("x/y/file"), b"inside");
    symlink(&secret, inside("x-link")).expect("a symlink");
    symlink("x/y/../y/file", inside("dots")).expect("a symlink");
    add("dots", inside("x"), inside("x-link"));
    // Dots behind a folder that is moved outside: they then lead to the canary there.
    let moved = service.outside(&format!("outside{number}"));
    make(&moved.join("moved/y/file"), b"inside");
    make(&moved.join("w/file"), CANARY);
    make(&inside("moved/y/file"), b"inside");
    make(&inside("w/file"), b"inside");
    symlink("moved/y/../../w/file", inside("moved-dots")).expect("a symlink");
    add("moved-dots", inside("moved"), moved.join("moved"));
    races
}

/// Asks for the target while the paths are exchanged. Returns how often it was served, and how
/// often not.
fn run(service: &RunningService, race: &Race, rounds: usize) -> (usize, usize) {
    let exchange = || {
        renameat_with(CWD, &race.one, CWD, &race.other, RenameFlags::EXCHANGE).expect("both");
    };
    let answer = |client: &mut LabClient| {
        let reply = client.reply();
        assert_ne!(reply.body, CANARY, "{}", race.target);
        assert!(matches!(reply.status, 200 | 404 | 500), "{}: {reply:?}", race.target);
        usize::from(reply.body == b"inside")
    };
    let stop = AtomicBool::new(false);
    let request =
        format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", race.target).repeat(PIPELINED);
    let mut client = service.connect();
    let mut served = 0;
    // Each state once, whatever the race meets.
    for _ in 0..2 {
        client.send(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", race.target));
        served += answer(&mut client);
        exchange();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                exchange();
            }
        });
        // Stops the exchange also when an assertion fails.
        let _stop = TraversalStop(&stop);
        for _ in 0..rounds / PIPELINED {
            client.send(&request);
            served += (0..PIPELINED).map(|_| answer(&mut client)).sum::<usize>();
        }
        (served, rounds + 2 - served)
    })
}

pub(crate) struct TraversalStop<'s>(pub(crate) &'s AtomicBool);

impl Drop for TraversalStop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn rename_races_never_lead_outside() {
    let rounds = scaled(400, 20_000);
    let service = RunningService::new();
    let folders = ["", "d/", "d/e/", "d/e/f/"];
    let races: Vec<Race> = folders
        .iter()
        .enumerate()
        .flat_map(|(number, folder)| races(&service, folder, number))
        .collect();
    assert_eq!(races.len(), 20);
    let counts: Vec<_> = races.iter().map(|race| run(&service, race, rounds)).collect();
    let served: usize = counts.iter().map(|(served, _)| served).sum();
    let refused: usize = counts.iter().map(|(_, refused)| refused).sum();
    assert!(served > 0 && refused > 0, "never met both states: {served} and {refused}");
    write_section(
        "service-races",
        &format!(
            "## Rename races of the service\n\n\
             20 races between a request and an exchange of what it asks for with a symlink or a \
             folder outside, {rounds} requests each: {served} were answered with the file inside, \
             {refused} were refused, 0 led outside.\n"
        ),
    );
}
