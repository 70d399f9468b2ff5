//! The address of a PostgreSQL database, as libpq writes it, and its password.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fathom_record::passwd::user_name;
use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::StoreError;

/// The folder of the server's socket, where no host is named: Debian's, and libpq's there.
const SOCKET_FOLDER: &str = "/var/run/postgresql";

/// It never prints a password, also not by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// As it was named.
    whole: String,
    shown: String,
    config: Box<Config>,
    pub(crate) tls: TlsMode,
    /// Certificates to trust instead of the system's, in PEM.
    pub(crate) roots: Option<PathBuf>,
}

/// As libpq means them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

const SHAPE: &str = "postgres://USER@HOST:PORT/DATABASE?sslmode=verify-full";

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        Self::parse_with(text, &|name| std::env::var(name).ok().filter(|it| !it.is_empty()))
    }

    /// What the address lacks is of the variables of libpq.
    fn parse_with(
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let wrong = |reason: String| StoreError::BadAddress { reason };
        let (scheme, rest) = text.split_once(':').unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        if !["postgres", "postgresql"].contains(&&*scheme) {
            return Err(wrong(format!("no database of `{scheme}:` can be a store")));
        }
        let rest = rest.strip_prefix("//");
        let rest = rest.ok_or_else(|| wrong(format!("`//` is missing after `{scheme}:`")))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        if login.contains(['@', '/']) || query.contains('@') {
            return Err(wrong("write `@`, `/` and `?` in a password as %40, %2F and %3F".into()));
        }
        let (mut tls, mut roots, mut kept) = (TlsMode::Prefer, None, Vec::new());
        let mut by_query = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => tls = TlsMode::parse(value).map_err(wrong)?,
                "sslrootcert" if value == "system" => {}
                "sslrootcert" => roots = Some(PathBuf::from(decoded(value))),
                "password" => by_query = Some(value),
                _ => kept.push(pair),
            }
        }
        if roots.is_some() && tls != TlsMode::VerifyFull {
            return Err(wrong("sslrootcert needs sslmode=verify-full".to_owned()));
        }
        let joined = |pairs: &[&str]| match pairs.join("&") {
            none if none.is_empty() => none,
            some => format!("?{some}"),
        };
        let at = if user.is_empty() { "" } else { "@" };
        let parsed = format!("postgres://{user}{at}{place}{}", joined(&kept));
        let mut config: Config = parsed.parse().map_err(|error| wrong(cause(&error)))?;
        if let Some(password) = Some(password).filter(|it| !it.is_empty()).or(by_query) {
            config.password(decoded(password));
        }
        let filled = fill_in(&mut config, variable).map_err(wrong)?;
        // As libpq: the other end of a socket in the file system is this machine.
        let is_local = |host: &Host| matches!(host, Host::Unix(_));
        if config.get_hosts().iter().any(is_local) {
            tls = TlsMode::Disable;
        }
        config.ssl_mode(match tls {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyFull => SslMode::Require,
        });
        let is_shown = |pair: &&str| !pair.starts_with("password=") && !pair.is_empty();
        let pairs = rest.split_once('?').unwrap_or_default().1.split('&').filter(is_shown);
        let shown: Vec<&str> = pairs.chain(filled.iter().map(String::as_str)).collect();
        let shown = format!("{scheme}://{user}{at}{place}{}", joined(&shown));
        Ok(Self { whole: text.to_owned(), shown, config: Box::new(config), tls, roots })
    }

    /// Whether it has a password itself.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// With its password: for the environment of a process, never for its command line.
    pub fn with_password(&self) -> OsString {
        OsString::from(&self.whole)
    }

    /// What the server is asked for. The password is of the address, else of PGPASSWORD, else of
    /// the password file.
    pub(crate) fn config(&self) -> Result<Config, StoreError> {
        let mut config = (*self.config).clone();
        if config.get_password().is_some() {
            return Ok(config);
        }
        if let Some(password) = std::env::var_os("PGPASSWORD").filter(|it| !it.is_empty()) {
            config.password(password.as_encoded_bytes());
            return Ok(config);
        }
        let own = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
        let file = std::env::var_os("PGPASSFILE").map(PathBuf::from).or_else(own);
        if let Some(password) = file.map(|file| self.password_in(&file)).transpose()?.flatten() {
            config.password(password);
        }
        Ok(config)
    }

    /// The password that a file has for this address.
    fn password_in(&self, file: &Path) -> Result<Option<String>, StoreError> {
        let Ok(text) = std::fs::read_to_string(file) else { return Ok(None) };
        let mode = std::fs::metadata(file).map_or(0, |facts| facts.permissions().mode());
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(folder)) if folder != Path::new(SOCKET_FOLDER) => {
                folder.display().to_string()
            }
            _ => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().unwrap_or(&5432).to_string();
        let user = self.config.get_user().unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or(user);
        let found = password_of(&text, [&host, &port, database, user]);
        if found.is_some() && mode & 0o077 != 0 {
            let reason = format!(
                "{} has passwords and mode {:03o}: others can read it; chmod 600 it",
                file.display(),
                mode & 0o777
            );
            return Err(StoreError::BadAddress { reason });
        }
        Ok(found)
    }
}

/// The password of the first line of a password file (`host:port:database:user:password`) that
/// has these fields or `*`.
fn password_of(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = vec![String::new()];
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            let escaped = if c == '\\' { chars.next() } else { None };
            match (c, escaped) {
                (':', _) if fields.len() < 5 => fields.push(String::new()),
                (c, escaped) => fields.last_mut()?.push(escaped.unwrap_or(c)),
            }
        }
        let is_of = |(field, wanted): (&String, &str)| field == "*" || field == wanted;
        let is_whole = fields.len() == 5 && fields.iter().zip(wanted).all(is_of);
        is_whole.then(|| fields.pop()).flatten()
    })
}

impl TlsMode {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "disable" => Ok(Self::Disable),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err(format!("sslmode={word}: expected disable, prefer, require or verify-full")),
        }
    }
}

/// What the address lacks, by the variables of libpq. It is shown as well: the spool of a database
/// has the name of its whole address.
fn fill_in(
    config: &mut Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<String>, String> {
    let mut filled = Vec::new();
    let mut fill = |is_missing: bool, variable_name: &str, field: &str| {
        let value = variable(variable_name).filter(|_| is_missing)?;
        filled.push(format!("{field}={value}"));
        Some(value)
    };
    let has_host = !config.get_hosts().is_empty() || !config.get_hostaddrs().is_empty();
    let host = fill(!has_host, "PGHOST", "host");
    if !has_host {
        // A folder is that of a socket.
        config.host(host.unwrap_or_else(|| SOCKET_FOLDER.to_owned()));
    }
    if let Some(port) = fill(config.get_ports().is_empty(), "PGPORT", "port") {
        config.port(port.parse().map_err(|_| format!("PGPORT={port}: not a port"))?);
    }
    let is_nameless = config.get_user().is_none();
    let role = fill(is_nameless, "PGUSER", "user").or_else(login_name);
    if let Some(role) = role.filter(|_| is_nameless) {
        config.user(role);
    }
    if let Some(name) = fill(config.get_dbname().is_none(), "PGDATABASE", "dbname") {
        config.dbname(name);
    }
    Ok(filled)
}

/// The user of this process, whose name is that of a role where nothing names one.
fn login_name() -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    user_name(&users, rustix::process::geteuid().as_raw()).map(str::to_owned)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// An error of the client library names its reason in its source.
fn cause(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error);
    let reason = source.map_or_else(|| error.to_string(), ToString::to_string);
    format!("{reason}; its form is {SHAPE}")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(text: &str) -> String {
        Address::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn password_is_never_printed() {
        for (text, shown) in [
            ("postgres://ada:s3cret@db/runs", "postgres://ada@db/runs"),
            ("postgresql://ada:s3cret%40@db:1/r?a=b", "postgresql://ada@db:1/r?a=b"),
            (
                "postgres://ada@db/r?password=s3cret&sslmode=require",
                "postgres://ada@db/r?sslmode=require",
            ),
            ("postgres://ada:s3cret@[::1]:5433/r", "postgres://ada@[::1]:5433/r"),
        ] {
            let text = text.replace("?a=b", "?application_name=b");
            let shown = shown.replace("?a=b", "?application_name=b");
            let address = Address::parse(&text).unwrap();
            assert_eq!((address.to_string(), format!("{address:?}")), (shown.clone(), shown));
            let password = address.config().unwrap();
            assert!(password.get_password().unwrap().starts_with(b"s3cret"));
        }
        for wrong in [
            "postgres://ada:s3cret@x@db/runs",
            "postgres://ada:s3/cret@db/runs",
            "postgres://ada:s3?cret@db/runs",
            "postgres://ada:s3cret@db:port/runs",
            "postgres://ada:s3cret@db/runs?sslmode=always",
            "postgres:/ada:s3cret@db",
            "mysql://ada:s3cret@db/runs",
            "postgres://ada:s3cret@db/runs?nonsense=1",
        ] {
            let reason = reason(wrong);
            assert!(!reason.contains("cret") && !reason.contains("s3"), "{wrong}: {reason}");
        }
    }

    #[test]
    fn wrong_address_says_what_is_wrong() {
        assert!(reason("mysql://h/d").contains("no database of `mysql:`"));
        assert!(reason("postgres:/x").contains("`//` is missing"));
        assert!(reason("postgres://h/d?sslmode=verify-ca").contains("expected disable, prefer"));
        let needs = "sslrootcert needs sslmode=verify-full";
        assert!(reason("postgres://h/d?sslrootcert=/a.pem").contains(needs));
    }

    #[test]
    fn tls_is_as_libpq_means_it() {
        let of = |text: &str| {
            let address = Address::parse(text).unwrap();
            (address.tls, address.config.get_ssl_mode())
        };
        assert_eq!(of("postgres://h/d"), (TlsMode::Prefer, SslMode::Prefer));
        assert_eq!(of("postgres://h/d?sslmode=require"), (TlsMode::Require, SslMode::Require));
        let full = (TlsMode::VerifyFull, SslMode::Require);
        assert_eq!(of("postgres://h/d?sslmode=verify-full&sslrootcert=%2Fa%20b.pem"), full);
        let socket = (TlsMode::Disable, SslMode::Disable);
        assert_eq!(of("postgres:///d?sslmode=require"), socket);
        assert_eq!(of("postgres://%2Ftmp%2Fs/d"), socket);
    }

    #[test]
    fn password_file_is_read_as_by_libpq() {
        let text = "# a comment\nother:*:*:*:no\ndb:5432:runs:ada:a\\:b\\\\c:d\n*:*:*:*:any\n";
        let of = |host, user| password_of(text, [host, "5432", "runs", user]);
        assert_eq!(of("db", "ada").unwrap(), "a:b\\c:d");
        assert_eq!(of("db", "bob").unwrap(), "any");
        assert_eq!(password_of("db:5432:runs:ada", ["db", "5432", "runs", "ada"]), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pgpass");
        std::fs::write(&file, "db:*:*:ada:secret\n").unwrap();
        let address = Address::parse("postgres://ada@db/runs").unwrap();
        for (mode, is_read) in [(0o644, false), (0o600, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let password = address.password_in(&file);
            assert_eq!(password.is_ok(), is_read);
            assert!(password.is_err() || password.unwrap().as_deref() == Some("secret"));
        }
        assert_eq!(address.password_in(&folder.path().join("none")).unwrap(), None);
        // By what psql would log in with.
        std::fs::write(&file, "db2:5433:runs:ada:secret\nlocalhost:5432:me:me:own\n").unwrap();
        let variables = |name: &str| match name {
            "PGHOST" => Some("db2".to_owned()),
            "PGPORT" => Some("5433".to_owned()),
            "PGUSER" => Some("ada".to_owned()),
            "PGDATABASE" => Some("runs".to_owned()),
            _ => None,
        };
        let me = |name: &str| (name == "PGUSER").then(|| "me".to_owned());
        let of = |text: &str, variable: &dyn Fn(&str) -> Option<String>| {
            Address::parse_with(text, variable).unwrap().password_in(&file).unwrap()
        };
        assert_eq!(of("postgres://", &variables).as_deref(), Some("secret"));
        let shown = Address::parse_with("postgres://ada@", &variables).unwrap().to_string();
        assert_eq!(shown, "postgres://ada@?host=db2&port=5433&dbname=runs");
        assert_eq!(of("postgres://bob@/", &variables), None, "the address comes first");
        assert_eq!(of("postgres://", &me).as_deref(), Some("own"), "the role is the database");
        let login = Address::parse_with("postgres://db", &|_| None).unwrap();
        assert_eq!(login.config.get_user(), login_name().as_deref());
    }
}
