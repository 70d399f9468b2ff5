//! Searches in folders like /proc.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue …\n";
const TO: &str = "127.0.0.1:8001";
const FROM: &str = "127.0.0.1:40000";
/// The network namespace of this program.
const HERE: &str = "net:[1]";

struct FindMachine(tempfile::TempDir);

impl FindMachine {
    /// With this program, whose namespace has these sockets: local, remote, state and inode.
    fn new(sockets: &[(&str, &str, &str, u64)]) -> Self {
        let machine = Self(tempfile::tempdir().expect("a folder"));
        machine.process(99, 1, HERE, &[]);
        symlink("99", machine.path("self")).expect("a link");
        machine.sockets(99, sockets);
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("proc").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn sockets(&self, pid: u32, sockets: &[(&str, &str, &str, u64)]) {
        let hex = |address: &str| {
            let address: std::net::SocketAddrV4 = address.parse().expect("an address");
            let word = u32::from_ne_bytes(address.ip().octets());
            format!("{word:08X}:{:04X}", address.port())
        };
        let line = |(local, remote, state, inode): &(&str, &str, &str, u64)| {
            let ends = format!("{} {}", hex(local), hex(remote));
            format!("0: {ends} {state} 0:0 00:0 0 4294967294 0 {inode} 1\n")
        };
        let lines: String = sockets.iter().map(line).collect();
        self.write(&format!("{pid}/net/tcp"), &(HEAD.to_owned() + &lines));
    }

    /// A process with these sockets open.
    fn process(&self, pid: u32, parent: u32, namespace: &str, inodes: &[u64]) {
        let stat = format!("{pid} (p{pid}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0\n");
        self.write(&format!("{pid}/stat"), &stat);
        self.write(&format!("{pid}/status"), &format!("Name:\tx\nTgid:\t{pid}\n"));
        self.write(&format!("{pid}/task/{pid}/children"), "");
        self.write(&format!("{pid}/fd/none"), "");
        for inode in inodes {
            let link = self.path(&format!("{pid}/fd/{inode}"));
            symlink(format!("socket:[{inode}]"), link).expect("a link");
        }
        fs::create_dir_all(self.path(&format!("{pid}/ns"))).expect("a folder");
        symlink(namespace, self.path(&format!("{pid}/ns/net"))).expect("a link");
        if namespace == HERE && pid != 99 {
            symlink("../99/net", self.path(&format!("{pid}/net"))).expect("a link");
        }
    }

    fn children(&self, pid: u32, children: &str) {
        self.write(&format!("{pid}/task/{pid}/children"), children);
    }

    fn find(&self, which: Which) -> Result<Found, FindError> {
        self.find_at(which, true)
    }

    fn find_at(&self, which: Which, is_own_address: bool) -> Result<Found, FindError> {
        let reader = HostReader::at(self.0.path());
        let [to, from] = [TO, FROM].map(|it| it.parse().expect("an address"));
        FindSearch { reader: &reader, to, from, is_own_address, own: 99 }.find(which)
    }

    fn roots(&self, which: Which) -> Result<(Vec<u32>, Vec<String>), String> {
        let found = self.find(which).map_err(|error| error.to_string())?;
        Ok((found.roots, found.warnings))
    }
}

const ANY: &str = "0.0.0.0:0";
const ACCEPTED: (&str, &str, &str, u64) = (TO, FROM, "01", 0);
const CLIENT: (&str, &str, &str, u64) = (FROM, TO, "01", 71);

/// nginx with two workers, started by a shell; a client; and another server.
fn machine() -> FindMachine {
    let machine = FindMachine::new(&[
        ACCEPTED,
        ("0.0.0.0:8001", ANY, "0A", 70),
        ("0.0.0.0:9000", ANY, "0A", 90),
        CLIENT,
    ]);
    machine.process(1, 0, HERE, &[70]);
    machine.process(5, 1, HERE, &[]);
    machine.process(10, 5, HERE, &[70]);
    machine.process(11, 10, HERE, &[70, 72]);
    machine.process(12, 10, HERE, &[70]);
    machine.process(20, 5, HERE, &[90]);
    machine.children(5, "10 20");
    machine.children(10, "11 12");
    machine
}

#[test]
fn owners_of_the_socket_are_one_tree() {
    let machine = machine();
    // Not init, which passed the socket on, nor the shell.
    assert_eq!(machine.roots(Which::Auto), Ok((vec![10], vec![])));
    let found = machine.find(Which::Auto).expect("a server");
    let [table, _] = SocketTable::all("self");
    let both = |it: Connections| [it.server, it.client];
    assert_eq!(found.connections.map(both), Some([table.clone(), table]));
    // In a container it is the only one.
    let contained = FindMachine::new(&[ACCEPTED, CLIENT, ("127.0.0.1:8001", ANY, "0A", 70)]);
    contained.process(1, 0, HERE, &[70]);
    assert_eq!(contained.roots(Which::Auto), Ok((vec![1], vec![])));
}

#[test]
fn owners_that_share_a_port_are_all_taken() {
    let machine = machine();
    let reuse = [("127.0.0.1:8001", ANY, "0A", 70), ("127.0.0.1:8001", ANY, "0A", 90)];
    machine.sockets(99, &[&[ACCEPTED, CLIENT][..], &reuse].concat());
    assert_eq!(machine.roots(Which::Auto), Ok((vec![10, 20], vec![])));
}

#[test]
fn server_in_another_network_namespace_is_found_by_the_connection() {
    let machine = FindMachine::new(&[CLIENT, ("0.0.0.0:8001", ANY, "0A", 60)]);
    machine.process(6, 1, HERE, &[60]);
    machine.process(10, 1, "net:[2]", &[70]);
    machine.sockets(10, &[("0.0.0.0:8001", ANY, "0A", 70)]);
    machine.process(20, 1, "net:[3]", &[80]);
    machine.sockets(20, &[ACCEPTED, ("0.0.0.0:8001", ANY, "0A", 80)]);
    assert_eq!(machine.roots(Which::Auto), Ok((vec![20], vec![])));
    assert_eq!(machine.roots(Which::Process(20)), Ok((vec![20], vec![])));
    let error = machine.roots(Which::Process(10)).expect_err("another server");
    assert!(error.ends_with("but p20 (PID 20) does"), "{error}");
}

#[test]
fn server_that_is_not_here_is_said() {
    let remote = FindMachine::new(&[CLIENT]);
    let accepted = "no process seen here has accepted the connection to 127.0.0.1:8001";
    let error = remote.roots(Which::Auto).expect_err("no server");
    assert!(error.starts_with(&format!("{accepted}: its port is forwarded")), "{error}");
    remote.process(10, 1, HERE, &[70]);
    for which in [Which::Auto, Which::Process(10)] {
        let error = remote.find_at(which, false).expect_err("no server").to_string();
        assert!(error.starts_with(&format!("{accepted}: the server is remote")), "{error}");
    }
    let closed = FindMachine::new(&[ACCEPTED, CLIENT]);
    let error = closed.roots(Which::Auto).expect_err("no listener");
    assert!(error.starts_with("no socket listens on 127.0.0.1:8001"), "{error}");
    let hidden = FindMachine::new(&[ACCEPTED, CLIENT, (TO, ANY, "0A", 70)]);
    hidden.process(10, 1, HERE, &[]);
    let passwd = hidden.0.path().join("etc/passwd");
    fs::create_dir_all(passwd.parent().expect("a folder")).expect("a folder");
    fs::write(passwd, "root:x:0:0::/:/bin/sh\nwww:x:4294967294:33::/:/bin/sh\n").expect("a file");
    let error = hidden.roots(Which::Auto).expect_err("no owner");
    assert!(error.contains("4294967294 (www)"), "{error}");
    fs::remove_dir_all(hidden.path("10/fd")).expect("a folder");
    let (_, warnings) = hidden.roots(Which::Process(10)).expect("unknown");
    assert!(warnings[0].contains("this user may not read its open files"), "{warnings:?}");
    hidden.process(11, 1, HERE, &[75]);
    let error = hidden.roots(Which::Process(11)).expect_err("it has no such socket");
    let text = "--pid: neither p11 (PID 11) nor a child of it listens on port 8001; the process \
                that does cannot be seen by this user";
    assert_eq!(error, text);
}

#[test]
fn named_process_must_be_the_server() {
    let machine = machine();
    let ok = |pid| Ok((vec![pid], vec![]));
    assert_eq!(machine.roots(Which::Process(10)), ok(10));
    let (roots, warnings) = machine.roots(Which::Process(5)).expect("a server below it");
    let text = "--pid: p10 (PID 10) listens on port 8001, a descendant of p5 (PID 5): the work of \
                all descendants is counted";
    assert_eq!((roots, warnings), (vec![5], vec![text.to_owned()]));
    let of = |pid| machine.roots(Which::Process(pid)).expect_err("no server");
    assert_eq!(of(77), "--pid 77: there is no such process");
    let another = "--pid: neither p20 (PID 20) nor a child of it listens on port 8001, but p10 \
                   (PID 10) does";
    assert_eq!(of(20), another);
    // A worker is a part of it only.
    let (roots, warnings) = machine.roots(Which::Process(11)).expect("a part");
    assert_eq!(roots, [11]);
    assert_eq!(warnings, ["--pid: p10 (PID 10) listens on port 8001, too: its work is not seen"]);
    machine.process(13, 10, HERE, &[]);
    machine.write("13/status", "Name:\tx\nTgid:\t10\n");
    assert_eq!(of(13), "--pid 13 is a thread: its process is 10");
}

#[test]
fn forwarded_port_is_said() {
    // The connection has other addresses behind NAT.
    let machine = FindMachine::new(&[CLIENT]);
    machine.process(10, 1, "net:[2]", &[70]);
    machine.sockets(10, &[("0.0.0.0:80", ANY, "0A", 70), ("0.0.0.0:81", ANY, "0A", 99)]);
    let (roots, warnings) = machine.roots(Which::Process(10)).expect("a server");
    let text = "--pid: p10 (PID 10) is taken for the server behind a forwarded port: it listens \
                on 80 in its network namespace";
    assert_eq!((roots, warnings), (vec![10], vec![text.to_owned()]));
    assert_eq!(machine.find(Which::Process(10)).expect("a server").connections, None);
    machine.process(11, 1, "net:[2]", &[75]);
    machine.sockets(11, &[("0.0.0.0:80", ANY, "0A", 70)]);
    let error = machine.roots(Which::Process(11)).expect_err("no server");
    assert_eq!(error, "--pid: p11 (PID 11) listens on no TCP port");
}
