//! A PostgreSQL server of a test: in a temporary folder, as a user without rights, on a socket in
//! that folder and on a port of loopback with TLS. It ends with the test, also after a panic.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::Unmet;

/// The user `nobody`: the server refuses root.
const NOBODY: u32 = 65_534;
/// The superuser in the database.
pub const ADMIN: &str = "fathom";
const READY: &str = "database system is ready to accept connections";

pub struct LabPostgres {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    server: Option<Child>,
    has_tls: bool,
    /// Whether a commit is on the disk when it returns.
    is_durable: bool,
}

impl LabPostgres {
    /// A new cluster and its server. With a certificate and its key, both in PEM, logins over
    /// loopback need TLS and a password.
    ///
    /// # Errors
    /// [`Unmet`] where it is not installed, or cannot be started.
    pub fn start(certificate: Option<[&str; 2]>) -> Result<Self, Unmet> {
        // In memory, where a sync is free.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { Path::new("/tmp") };
        Self::start_in(place, false, certificate)
    }

    /// A server whose commits are on the disk of a folder when they return.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn durable(place: &Path) -> Result<Self, Unmet> {
        Self::start_in(place, true, None)
    }

    fn start_in(
        place: &Path,
        is_durable: bool,
        certificate: Option<[&str; 2]>,
    ) -> Result<Self, Unmet> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in(place);
        let folder = folder.map_err(|error| Unmet(format!("create a folder: {error}")))?;
        let has_tls = certificate.is_some();
        let mut this = Self { folder, programs, port: 0, server: None, has_tls, is_durable };
        this.create(certificate).map_err(|why| Unmet(format!("PostgreSQL: {why}")))?;
        this.run().map_err(|why| Unmet(format!("PostgreSQL: {why}")))?;
        Ok(this)
    }

    fn create(&mut self, certificate: Option<[&str; 2]>) -> io::Result<()> {
        let give = |path: &Path| match rustix::process::geteuid().is_root() {
            true => chown(path, Some(NOBODY), Some(NOBODY)),
            false => Ok(()),
        };
        give(self.folder.path())?;
        let mut initdb = self.command("initdb");
        initdb.arg("-D").arg(self.data()).args(["-U", ADMIN, "-A", "trust", "--no-sync"]);
        initdb.args(["-E", "UTF8", "--locale=C.UTF-8"]);
        succeeded(&initdb.output()?)?;
        for (name, text) in
            ["server.crt", "server.key"].iter().zip(certificate.into_iter().flatten())
        {
            let path = self.data().join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
            give(&path)?;
        }
        let over_loopback = match self.has_tls {
            true => "hostssl all all 127.0.0.1/32 scram-sha-256\n",
            false => "host all all 127.0.0.1/32 trust\n",
        };
        fs::write(
            self.data().join("pg_hba.conf"),
            format!("local all all trust\n{over_loopback}"),
        )?;
        // Free now; who takes it first fails the test with a clear message.
        self.port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        Ok(())
    }

    /// Starts the server, and waits until it accepts connections.
    fn run(&mut self) -> io::Result<()> {
        let mut server = self.command("postgres");
        let ssl = if self.has_tls { "ssl=on" } else { "ssl=off" };
        server.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path());
        server.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-c", ssl]);
        // A killed server loses nothing that reached the kernel; `no` would also drop the log.
        let sync = if self.is_durable { "fsync=on" } else { "fsync=off" };
        server.args(["-c", sync, "-c", "max_connections=120", "-c", "shared_buffers=32MB"]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = server.spawn()?;
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        self.server = Some(child);
        let (mut line, mut last) = (String::new(), String::new());
        while log.read_line(&mut line)? > 0 {
            if line.contains(READY) {
                // Else the server would stop at a full pipe.
                std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
                return Ok(());
            }
            last = std::mem::take(&mut line);
        }
        Err(io::Error::other(last))
    }

    /// Kills all its processes at once.
    pub fn crash(&mut self) {
        if let Some(mut server) = self.server.take() {
            // SIGQUIT: immediate shutdown, without a checkpoint.
            if let Some(pid) = rustix::process::Pid::from_raw(server.id().cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            }
            let _ = server.wait();
        }
    }

    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> io::Result<()> {
        self.run()
    }

    /// Executes statements as the superuser; the rows, unaligned.
    ///
    /// # Errors
    /// What the server says.
    pub fn sql(&self, database: &str, statements: &str) -> io::Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string(), "-U", ADMIN]);
        psql.args(["-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statements]);
        succeeded(&psql.output()?)
    }

    /// Creates a database and returns its address by the socket.
    ///
    /// # Errors
    /// What the server says.
    pub fn new_database(&self, name: &str) -> io::Result<String> {
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.address(name))
    }

    /// The address of a database by the socket, as the superuser.
    pub fn address(&self, database: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://{ADMIN}@{folder}:{}/{database}", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of the server, as a user that it accepts, that ends with this process.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]);
        if rustix::process::geteuid().is_root() {
            let user = NOBODY.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        command.arg(self.programs.join(program)).env("LC_ALL", "C").current_dir("/");
        command
    }
}

impl Drop for LabPostgres {
    fn drop(&mut self) {
        self.crash();
    }
}

fn succeeded(output: &Output) -> io::Result<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(io::Error::other(text(&output.stderr))),
    }
}

/// The folder of the newest version that Debian's packages have installed, or of the PATH.
fn programs() -> Result<PathBuf, Unmet> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|it| it.path()).filter(|it| it.join("bin/initdb").is_file());
    let newest = newest.max_by_key(|path| number(path)).map(|path| path.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        newest.or_else(|| std::env::split_paths(&path).find(|it| it.join("initdb").is_file()));
    found.ok_or_else(|| Unmet("PostgreSQL is not installed (package postgresql)".to_owned()))
}
