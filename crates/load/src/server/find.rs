//! Which processes are the server: by the socket that accepted a connection of this program.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use fathom_measure::host::HostReader;
use fathom_record::passwd::user_name;
use thiserror::Error;

use super::sockets::{self, Connections, Socket, SocketTable};
use super::stat::{self, Stat};
use super::tree::Tree;

/// The process that starts others may own the sockets of a server, too.
const INIT: u32 = 1;

/// The option `--pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The owner of the listening socket.
    Auto,
    Process(u32),
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum FindError {
    #[error(
        "no process seen here has accepted the connection to {0}: the server is remote, or behind \
         NAT; only `fathom serve` reports figures from elsewhere"
    )]
    Remote(SocketAddr),
    #[error(
        "no process seen here has accepted the connection to {0}: its port is forwarded (NAT, a \
         container); name its process by --pid PID"
    )]
    Forwarded(SocketAddr),
    #[error(
        "no socket listens on {0} where the connection was accepted: name the process by --pid"
    )]
    NoListener(SocketAddr),
    #[error(
        "the socket of {to} belongs to user {user}, whose processes this user may not read: run as \
         root or as that user, or name the process by --pid PID"
    )]
    Unreadable { to: SocketAddr, user: String },
    #[error(
        "no process seen here owns the socket of {0} (user {1}): it is in another PID namespace"
    )]
    Hidden(SocketAddr, String),
    #[error("--pid {0}: there is no such process")]
    NoProcess(u32),
    #[error("--pid {0} is a thread: its process is {1}")]
    Thread(u32, u32),
    #[error("--pid: neither {tree} nor a child of it listens on port {port}, but {owner} does")]
    Another { tree: String, port: u16, owner: String },
    #[error(
        "--pid: neither {tree} nor a child of it listens on port {port}; the process that does \
         cannot be seen by this user"
    )]
    NotThis { tree: String, port: u16 },
    #[error("--pid: {0} listens on no TCP port")]
    NoServer(String),
}

/// The processes of a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub roots: Vec<u32>,
    /// The connections of this program, if the server's ends are known.
    pub connections: Option<Connections>,
    pub warnings: Vec<String>,
}

/// A connection of this program to the server.
pub struct FindSearch<'s> {
    pub reader: &'s HostReader,
    pub to: SocketAddr,
    pub from: SocketAddr,
    /// Whether the address is of this machine.
    pub is_own_address: bool,
    /// This process.
    pub own: u32,
}

impl FindSearch<'_> {
    pub fn find(&self, which: Which) -> Result<Found, FindError> {
        match which {
            Which::Auto => self.owners_of_connection(),
            Which::Process(process) => self.process(process),
        }
    }

    /// A process of each network namespace, that of this one first.
    fn namespaces(&self) -> impl Iterator<Item = String> {
        let namespace = |process: &str| self.reader.link(&format!("/proc/{process}/ns/net"));
        let mut seen: BTreeSet<String> = namespace("self").into_iter().collect();
        let processes = stat::numbers(self.reader, "/proc").into_iter();
        let is_new = move |process: &String| namespace(process).is_some_and(|it| seen.insert(it));
        let others = processes.map(|process| process.to_string()).filter(is_new);
        std::iter::once("self".to_owned()).chain(others)
    }

    /// The connections, if they end in the namespace of a process.
    fn connections(&self, process: &str) -> Option<Connections> {
        let server = SocketTable::with(self.reader, process, [self.to, self.from])?;
        let client = SocketTable::with(self.reader, "self", [self.from, self.to])?;
        Some(Connections { server, client, to: self.to })
    }

    /// Where the connection was accepted, by a process of the namespace.
    fn place(&self) -> Option<(String, Connections)> {
        self.namespaces().find_map(|process| {
            let connections = self.connections(&process)?;
            Some((process, connections))
        })
    }

    fn owners_of_connection(&self) -> Result<Found, FindError> {
        let (process, connections) = self.place().ok_or_else(|| self.nowhere())?;
        let sockets = sockets::all(self.reader, &process);
        let listening = sockets::listening(&sockets, self.to);
        let Some(first) = listening.first() else { return Err(FindError::NoListener(self.to)) };
        let owners = self.owners(&listening);
        if owners.is_empty() {
            return Err(self.unreadable(first.uid));
        }
        let (roots, connections) = (self.roots(&owners), Some(connections));
        Ok(Found { roots, connections, warnings: Vec::new() })
    }

    fn nowhere(&self) -> FindError {
        match self.is_own_address {
            true => FindError::Forwarded(self.to),
            false => FindError::Remote(self.to),
        }
    }

    fn unreadable(&self, uid: u32) -> FindError {
        let passwd = self.reader.text("/etc/passwd").unwrap_or_default();
        let name = user_name(&passwd, uid).map(|name| format!("{uid} ({name})"));
        let user = name.unwrap_or_else(|| uid.to_string());
        // With the right to read them all, or those of this user, it is not there.
        let own = rustix::process::geteuid().as_raw();
        match own == 0 || own == uid {
            true => FindError::Hidden(self.to, user),
            false => FindError::Unreadable { to: self.to, user },
        }
    }

    /// The processes that have any of these sockets open; not init if there are others.
    fn owners(&self, sockets: &[&Socket]) -> BTreeSet<u32> {
        let inodes: BTreeSet<u64> = sockets.iter().map(|it| it.inode).collect();
        let processes = stat::numbers(self.reader, "/proc").into_iter();
        let owns = |process: &u32| !self.open_sockets(*process).is_disjoint(&inodes);
        let mut owners: BTreeSet<u32> =
            processes.filter(|process| *process != self.own).filter(owns).collect();
        if owners.len() > 1 {
            owners.remove(&INIT);
        }
        owners
    }

    /// The inodes of a process's sockets. Empty without the right to know.
    fn open_sockets(&self, process: u32) -> BTreeSet<u64> {
        let folder = format!("/proc/{process}/fd");
        let inode = |name: &String| {
            let target = self.reader.link(&format!("{folder}/{name}"))?;
            target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        };
        self.reader.names(&folder).iter().filter_map(inode).collect()
    }

    /// Those without an ancestor among them.
    fn roots(&self, owners: &BTreeSet<u32>) -> Vec<u32> {
        let parent = |process: u32| Stat::read(self.reader, process).map(|stat| stat.parent);
        let is_root = |process: &u32| {
            let mut seen = BTreeMap::new();
            let mut next = parent(*process);
            while let Some(ancestor) = next {
                // Processes may end and start meanwhile: no chain is followed forever.
                if owners.contains(&ancestor) || seen.insert(ancestor, ()).is_some() {
                    break;
                }
                next = parent(ancestor);
            }
            next.is_none_or(|ancestor| !owners.contains(&ancestor))
        };
        owners.iter().copied().filter(is_root).collect()
    }

    fn words(&self, process: u32) -> String {
        let name = Stat::read(self.reader, process).map_or(String::new(), |stat| stat.name);
        format!("{name} (PID {process})")
    }

    fn process(&self, process: u32) -> Result<Found, FindError> {
        if Stat::read(self.reader, process).is_none() {
            return Err(FindError::NoProcess(process));
        }
        if let Some(leader) = self.leader(process).filter(|leader| *leader != process) {
            return Err(FindError::Thread(process, leader));
        }
        let tree = Tree::at(self.reader.clone(), &[process], self.own);
        let namespace = |process: &str| self.reader.link(&format!("/proc/{process}/ns/net"));
        let number = process.to_string();
        let is_same = namespace(&number).is_some_and(|it| namespace("self") == Some(it));
        let here = if is_same { "self".to_owned() } else { number };
        let sockets = sockets::all(self.reader, &here);
        let connections = self.connections(&here);
        let warnings = match connections.is_some() {
            true => self.check_owners(process, &tree, &sockets)?,
            false => self.check_forwarded(process, &tree, &sockets)?,
        };
        Ok(Found { roots: vec![process], connections, warnings })
    }

    /// Checks that a process, or a descendant, accepts the connections to the address.
    fn check_owners(
        &self,
        process: u32,
        tree: &Tree,
        sockets: &[Socket],
    ) -> Result<Vec<String>, FindError> {
        let (words, port) = (self.words(process), self.to.port());
        let owners = self.owners(&sockets::listening(sockets, self.to));
        let outside = owners.iter().copied().find(|it| !tree.contains(*it));
        let inside = owners.iter().copied().find(|it| tree.contains(*it));
        let listens = |it: u32| format!("--pid: {} listens on port {port}", self.words(it));
        let mut warnings = Vec::new();
        match (inside, outside) {
            (None, Some(owner)) => {
                let owner = self.words(owner);
                return Err(FindError::Another { tree: words, port, owner });
            }
            (None, None) if tree.processes().all(|it| self.is_readable(it)) => {
                return Err(FindError::NotThis { tree: words, port });
            }
            (None, None) => warnings.push(format!(
                "--pid: whether {words} listens on port {port} is unknown: this user may not read \
                 its open files; run as root or as its user"
            )),
            (Some(owner), _) if !owners.contains(&process) => warnings.push(format!(
                "{}, a descendant of {words}: the work of all descendants is counted",
                listens(owner)
            )),
            (Some(_), _) => {}
        }
        let other = outside.map(|owner| format!("{}, too: its work is not seen", listens(owner)));
        warnings.extend(other);
        Ok(warnings)
    }

    /// Checks that a process can be a server behind NAT, where the connection has other addresses.
    fn check_forwarded(
        &self,
        process: u32,
        tree: &Tree,
        sockets: &[Socket],
    ) -> Result<Vec<String>, FindError> {
        let (words, port) = (self.words(process), self.to.port());
        if let Some((place, _)) = self.place() {
            let all = sockets::all(self.reader, &place);
            let owners = self.owners(&sockets::listening(&all, self.to));
            if let Some(owner) = owners.first().map(|owner| self.words(*owner)) {
                return Err(FindError::Another { tree: words, port, owner });
            }
        }
        if !self.is_own_address {
            return Err(self.nowhere());
        }
        let open: BTreeSet<u64> = tree.processes().flat_map(|it| self.open_sockets(it)).collect();
        let own = sockets.iter().filter(|it| it.listens() && open.contains(&it.inode));
        let ports: BTreeSet<u16> = own.map(|it| it.local.port()).collect();
        if ports.is_empty() && tree.processes().any(|it| self.is_readable(it)) {
            return Err(FindError::NoServer(words));
        }
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        let which = match ports.is_empty() {
            true => "unknown, as its open files cannot be read".to_owned(),
            false => format!("{} in its network namespace", ports.join(", ")),
        };
        Ok(vec![format!(
            "--pid: {words} is taken for the server behind a forwarded port: it listens on {which}"
        )])
    }

    /// Whether the open files of a process are seen.
    fn is_readable(&self, process: u32) -> bool {
        !self.reader.names(&format!("/proc/{process}/fd")).is_empty()
    }

    /// The process of a thread.
    fn leader(&self, thread: u32) -> Option<u32> {
        let status = self.reader.text(&format!("/proc/{thread}/status"))?;
        let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        leader.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests;
