//! TCP sockets of a network namespace, by `net/tcp` and `net/tcp6` of a process in it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fathom_measure::host::HostReader;

/// States of include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
/// With data that may be under way: established, FIN_WAIT1, CLOSE_WAIT, LAST_ACK and CLOSING.
const SENDING: [u8; 5] = [ESTABLISHED, 4, 8, 9, 11];
/// The kernel has a table for each version of IP. IPv4 connections of a socket for both versions
/// are in that of IPv6.
const TABLES: [&str; 2] = ["tcp", "tcp6"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    pub local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    /// Bytes that were written and are not acknowledged, and that arrived and are not read.
    queues: [u64; 2],
    pub uid: u32,
    pub inode: u64,
}

impl Socket {
    /// From a line: `sl local remote st tx:rx tr:when retrnsmt uid timeout inode …`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
        let state = u8::from_str_radix(words.next()?, 16).ok()?;
        let (written, arrived) = words.next()?.split_once(':')?;
        let bytes = |digits| u64::from_str_radix(digits, 16).ok();
        let queues = [bytes(written)?, bytes(arrived)?];
        let uid = words.nth(2)?.parse().ok()?;
        let inode = words.nth(1)?.parse().ok()?;
        Some(Self { local, remote, state, queues, uid, inode })
    }

    pub fn listens(&self) -> bool {
        self.state == LISTEN
    }

    /// Whether it is this end of a connection.
    pub fn is_of(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.state == ESTABLISHED && self.local == plain(local) && self.remote == plain(remote)
    }
}

/// An IPv4 address in IPv6 as IPv4, without the scope of a link-local one.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// `0100007F:1F90`: 32-bit words in the byte order of the machine, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = host.get(8 * at..8 * at + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match host.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// A table of sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketTable {
    path: String,
}

impl SocketTable {
    /// The tables of the network namespace of a process, by its number, or of `self`.
    pub fn all(process: &str) -> [Self; 2] {
        TABLES.map(|name| Self { path: format!("/proc/{process}/net/{name}") })
    }

    /// The table with this end of a connection.
    pub fn with(reader: &HostReader, process: &str, ends: [SocketAddr; 2]) -> Option<Self> {
        let [local, remote] = ends;
        let has = |it: &Self| it.sockets(reader).iter().any(|it| it.is_of(local, remote));
        Self::all(process).into_iter().find(has)
    }

    pub fn sockets(&self, reader: &HostReader) -> Vec<Socket> {
        let text = reader.text(&self.path).unwrap_or_default();
        text.lines().skip(1).filter_map(Socket::parse).collect()
    }
}

/// The connections of this program to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// The tables with both ends.
    pub server: SocketTable,
    pub client: SocketTable,
    pub to: SocketAddr,
}

impl Connections {
    /// How many have data of the server on their way: more that is written and not acknowledged
    /// than has arrived and is not read.
    pub fn sending(&self, reader: &HostReader) -> u64 {
        let to = plain(self.to);
        let of_server = self.server.sockets(reader);
        let of_client = match self.client == self.server {
            true => None,
            false => Some(self.client.sockets(reader)),
        };
        let of_client = of_client.as_ref().unwrap_or(&of_server).iter();
        let own = of_client.filter(|it| it.remote == to);
        // A client that is late reading has data in its socket, which is no work of the network.
        let unread: BTreeMap<SocketAddr, u64> = own.map(|it| (it.local, it.queues[1])).collect();
        let is_sending = |it: &&Socket| {
            let is_more = unread.get(&it.remote).is_some_and(|unread| it.queues[0] > *unread);
            it.local == to && is_more && SENDING.contains(&it.state)
        };
        of_server.iter().filter(is_sending).count() as u64
    }
}

/// All sockets of the network namespace of a process.
pub fn all(reader: &HostReader, process: &str) -> Vec<Socket> {
    SocketTable::all(process).iter().flat_map(|table| table.sockets(reader)).collect()
}

/// Those that accept connections to an address: of several, the kernel takes the most specific
/// ones. More than one share a port by SO_REUSEPORT.
pub fn listening(sockets: &[Socket], to: SocketAddr) -> Vec<&Socket> {
    let to = plain(to);
    let rank = |it: &Socket| match it.local.ip() {
        own if own == to.ip() => Some(2),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) if to.is_ipv4() => Some(1),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Some(u8::from(to.is_ipv6())),
        _ => None,
    };
    let here = sockets.iter().filter(|it| it.listens() && it.local.port() == to.port());
    let ranked: Vec<(u8, &Socket)> = here.filter_map(|it| Some((rank(it)?, it))).collect();
    let best = ranked.iter().map(|(rank, _)| *rank).max();
    ranked.into_iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, it)| it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 2] = [0; 2];
    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when …\n";

    fn sockets(lines: &[&str]) -> Vec<Socket> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("proc/7/net")).expect("folders");
        let text = HEAD.to_owned() + &lines.join("\n") + "\n";
        std::fs::write(folder.path().join("proc/7/net/tcp"), text).expect("a file");
        all(&HostReader::at(folder.path()), "7")
    }

    /// In the byte order of this machine, as the kernel writes it.
    fn hex(address: &str) -> String {
        let address: SocketAddr = address.parse().expect("an address");
        let octets = match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let word = |four: &[u8]| u32::from_ne_bytes(four.try_into().expect("four bytes"));
        let words = octets.chunks(4).map(|four| format!("{:08X}", word(four)));
        format!("{}:{:04X}", words.collect::<String>(), address.port())
    }

    fn line(local: &str, remote: &str, state: &str, queues: [u64; 2], inode: u64) -> String {
        let ends = format!("{} {}", hex(local), hex(remote));
        let [written, arrived] = queues;
        let queues = format!("{written:08X}:{arrived:08X}");
        format!("   0: {ends} {state} {queues} 00:00000000 00000000    33 0 {inode} 1 0")
    }

    #[test]
    fn addresses_are_words_of_the_machine() {
        let of = |text: &str| address(text).map(|found| found.to_string());
        assert_eq!(of(&hex("127.0.0.1:8080")).as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(of(&hex("[fe80::1:2]:80")).as_deref(), Some("[fe80::1:2]:80"));
        assert_eq!(of(&hex("[::ffff:10.1.2.3]:80")).as_deref(), Some("10.1.2.3:80"), "mapped");
        if cfg!(target_endian = "little") {
            assert_eq!(of("0100007F:1F90").as_deref(), Some("127.0.0.1:8080"));
        }
        for text in ["", ":", "0100007F", "0100007F:", "0100007:1F90", "0100007F:10000", "ä:1"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn lines_of_the_kernel_are_sockets() {
        let whole = line("127.0.0.1:80", "127.0.0.1:4000", "01", [0x1234, 5], 99);
        let cut = &whole[..60];
        let found = sockets(&[&whole, cut, "", "   1: nonsense"]);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.queues, one.uid, one.inode), ([0x1234, 5], 33, 99));
        let ends = ["127.0.0.1:80", "127.0.0.1:4000"].map(|it| it.parse().expect("an address"));
        assert!(one.is_of(ends[0], ends[1]) && !one.is_of(ends[1], ends[0]) && !one.listens());
    }

    #[test]
    fn most_specific_sockets_accept_a_connection() {
        let any = "0.0.0.0:0";
        let lines = [
            line("0.0.0.0:80", any, "0A", NONE, 1),
            line("127.0.0.1:80", any, "0A", NONE, 2),
            line("127.0.0.1:80", any, "0A", NONE, 3),
            line("[::]:80", "[::]:0", "0A", NONE, 4),
            line("[::]:81", "[::]:0", "0A", NONE, 5),
            line("127.0.0.1:80", "127.0.0.1:5", "01", NONE, 6),
        ];
        let all = sockets(&lines.each_ref().map(String::as_str));
        let of = |to: &str| -> Vec<u64> {
            let to = to.parse().expect("an address");
            listening(&all, to).iter().map(|it| it.inode).collect()
        };
        assert_eq!(of("127.0.0.1:80"), [2, 3], "by SO_REUSEPORT");
        assert_eq!(of("10.0.0.1:80"), [1]);
        assert_eq!(of("[::1]:80"), [4]);
        assert_eq!(of("[::ffff:10.0.0.1]:80"), [1]);
        assert_eq!(of("127.0.0.1:81"), [5], "of both versions");
        assert!(of("127.0.0.1:82").is_empty());
    }

    #[test]
    fn only_data_on_the_way_to_the_client_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let reader = HostReader::at(folder.path());
        let [to, other] = ["127.0.0.1:80", "127.0.0.1:81"];
        let (sent, more, late) = ([9, 0], [10, 0], [0, 9]);
        let of_server = [
            line(to, "127.0.0.1:1", "01", sent, 1),
            line(to, "127.0.0.1:2", "01", NONE, 2),
            line(to, "127.0.0.1:3", "01", sent, 3),
            line(other, "127.0.0.1:4", "01", sent, 4),
            // A fresh connection that the server has closed.
            line(to, "127.0.0.1:5", "04", sent, 5),
            line(to, "127.0.0.1:6", "06", sent, 6),
            // Of another client.
            line(to, "127.0.0.1:7", "01", sent, 7),
            line(to, "127.0.0.1:8", "01", more, 8),
        ];
        let of_client = [
            line("127.0.0.1:1", to, "01", NONE, 11),
            line("127.0.0.1:2", to, "01", sent, 12),
            // It has arrived.
            line("127.0.0.1:3", to, "01", late, 13),
            line("127.0.0.1:4", other, "01", NONE, 14),
            line("127.0.0.1:5", to, "08", NONE, 15),
            line("127.0.0.1:6", to, "01", NONE, 16),
            // A part of it has arrived.
            line("127.0.0.1:8", to, "01", late, 18),
        ];
        let write = |process: u32, name: &str, lines: &[String]| {
            let path = folder.path().join(format!("proc/{process}/net"));
            std::fs::create_dir_all(&path).expect("folders");
            std::fs::write(path.join(name), HEAD.to_owned() + &lines.join("\n")).expect("a file");
        };
        let sending = |server: &SocketTable, client: &SocketTable| {
            let to = to.parse().expect("an address");
            Connections { server: server.clone(), client: client.clone(), to }.sending(&reader)
        };
        // In two namespaces, and in one.
        write(7, "tcp6", &of_server);
        write(8, "tcp", &of_client);
        assert_eq!(sending(&SocketTable::all("7")[1], &SocketTable::all("8")[0]), 3);
        write(9, "tcp", &[&of_server[..], &of_client[..]].concat());
        let both = &SocketTable::all("9")[0];
        assert_eq!(sending(both, both), 3);
    }
}
