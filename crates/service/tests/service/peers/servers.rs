//! The peers, each with a configuration of its own, in the foreground.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(super) struct ServerProgram {
    pub(super) name: &'static str,
    /// Its file below `tests/peers`.
    configuration: &'static str,
    /// `@CONFIG@` is the path of the configuration.
    command: &'static [&'static str],
    version: &'static [&'static str],
}

pub(super) const PROGRAMS: [ServerProgram; 4] = [
    ServerProgram {
        name: "nginx",
        configuration: "nginx.conf",
        command: &["nginx", "-e", "stderr", "-c", "@CONFIG@"],
        version: &["nginx", "-v"],
    },
    ServerProgram {
        name: "apache",
        configuration: "apache.conf",
        command: &["apache2", "-X", "-f", "@CONFIG@"],
        version: &["apache2", "-v"],
    },
    ServerProgram {
        name: "lighttpd",
        configuration: "lighttpd.conf",
        command: &["lighttpd", "-D", "-f", "@CONFIG@"],
        version: &["lighttpd", "-v"],
    },
    ServerProgram {
        name: "caddy",
        configuration: "Caddyfile",
        command: &["caddy", "run", "--adapter", "caddyfile", "--config", "@CONFIG@"],
        version: &["caddy", "version"],
    },
];

impl ServerProgram {
    /// The first line of its version.
    pub(super) fn version(&self) -> String {
        let output = Command::new(self.version[0]).args(&self.version[1..]).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
    }
}

/// A running peer.
pub(super) struct ServerPeer {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    child: Child,
}

impl ServerPeer {
    /// Starts a peer that serves a folder, with its files in `state`. The kernel kills it with the
    /// calling thread.
    pub(super) fn start(program: &ServerProgram, folder: &Path, state: &Path) -> Self {
        let state = state.join(program.name);
        fs::create_dir(&state).expect("a folder");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).expect("a mode");
        let probe = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = probe.local_addr().expect("an address");
        drop(probe);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
        let text = fs::read_to_string(source.join(program.configuration)).expect("a configuration");
        let text = text
            .replace("@PORT@", &address.port().to_string())
            .replace("@FOLDER@", folder.to_str().expect("UTF-8"))
            .replace("@STATE@", state.to_str().expect("UTF-8"));
        let configuration = state.join(program.configuration);
        fs::write(&configuration, text).expect("a file");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if rustix::process::geteuid().is_root() {
            // They follow symlinks out of the folder.
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        }
        let configuration = configuration.to_str().expect("UTF-8");
        command.args(program.command.iter().map(|word| word.replace("@CONFIG@", configuration)));
        command.env("HOME", &state).current_dir(&state).stdin(Stdio::null());
        let log = File::create(state.join("log")).expect("a file");
        // Apache httpd opens its standard error again.
        log.set_permissions(fs::Permissions::from_mode(0o666)).expect("a mode");
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let child = command.spawn().expect("setpriv");
        let mut peer = Self { name: program.name, address, child };
        peer.wait(&state);
        peer
    }

    fn wait(&mut self, state: &Path) {
        while TcpStream::connect(self.address).is_err() {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                let log = fs::read_to_string(state.join("log")).unwrap_or_default();
                panic!("{} does not listen: {log}", self.name);
            }
            // mood: waits until a program of others listens or ends
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for ServerPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
