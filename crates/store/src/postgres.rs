//! The store in a PostgreSQL database, in a schema of its own.
//!
//! Every wait has a bound: connecting, with its TLS and its login; locks and statements, by the
//! server; and each answer, for when the server or the way to it does not even say that. A commit
//! is on the server's disk when it returns.

mod ahead;
mod schema;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error as _;
use std::future::Future;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fathom_http::{Trust, client_config};
use fathom_record::{Activity, shortened, system_cause};
use futures_util::StreamExt as _;
use rustix::io::Errno;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::{Error, SqlState};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::StoreError;
use crate::address::{Address, TlsMode};
use crate::database::{Database, DatabaseAccess, DatabaseRow, DatabaseValue, Each};
use crate::error::{BUSY_TIMEOUT, lower_first};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than any statement here takes on a large store.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The server says so before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
/// Of a server that has vanished.
const KEEPALIVE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(5)];
/// As SQLite plans: every statement here looks rows up by an index. Else a join of a few rows reads
/// all records first, as often as there are metrics.
const PLANS: &str = "SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET random_page_cost = 1.1; SET max_parallel_workers_per_gather = 0; SET jit = off";
const ENCODING: &str = "UTF8";
/// Rows that are awaited together.
const ROWS: usize = 256;
/// Characters of a message of the server.
const MESSAGE_MAX: usize = 300;

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostgresOpen {
    /// Creates the tables if there are none, and migrates older ones.
    Write,
    /// Migrates older tables, once what was collected meanwhile is asked.
    Read,
    /// Changes nothing.
    Examine,
}

pub(crate) struct Postgres {
    runtime: Runtime,
    client: Client,
    /// Statements of this connection, by their SQL.
    prepared: RefCell<HashMap<String, Statement>>,
    /// Statements that are collected.
    noted: RefCell<Option<Vec<ahead::Noted>>>,
    /// What was asked ahead.
    known: RefCell<HashMap<String, Arc<Vec<Row>>>>,
    /// Whether the connection has its settings.
    is_ready: Cell<bool>,
    /// The address, for messages.
    path: PathBuf,
    action: Cell<&'static str>,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Postgres {
    pub(crate) fn open(address: &Address, open: PostgresOpen) -> Result<Self, StoreError> {
        let database = Self::connect(address, CONNECT_TIMEOUT)?;
        match open {
            PostgresOpen::Write => schema::create(database.set_up()?)?,
            PostgresOpen::Examine => {
                schema::examine(database.set_up()?)?;
                database.batch(ahead::READ_ONLY)?;
            }
            PostgresOpen::Read => drop(database.noted.replace(Some(Vec::new()))),
        }
        database.action.set(READ);
        Ok(database)
    }

    /// The version of an older store that [`Self::open`] would change.
    pub(crate) fn older_version(address: &Address) -> Result<Option<u32>, StoreError> {
        schema::older(Self::connect(address, CONNECT_TIMEOUT)?.set_up()?)
    }

    fn connect(address: &Address, limit: Duration) -> Result<Self, StoreError> {
        let path = PathBuf::from(address.to_string());
        let failed =
            |reason| StoreError::Server { action: "connect to", path: path.clone(), reason };
        let mut config = address.config()?;
        config.application_name("fathom");
        config.connect_timeout(limit).tcp_user_timeout(ANSWER_TIMEOUT);
        config
            .keepalives_idle(KEEPALIVE[0])
            .keepalives_interval(KEEPALIVE[1])
            .keepalives_retries(3);
        let tls = tls(address).map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        let connected = runtime
            .block_on(async { timeout(limit, config.connect(MakeRustlsConnect::new(tls))).await });
        let (client, connection) = match connected {
            Ok(Ok(both)) => both,
            other => {
                // A name that is being looked up would be waited for.
                runtime.shutdown_background();
                return Err(match other {
                    Ok(Err(error)) if is_foreign(&error) => failed(FOREIGN.to_owned()),
                    Ok(Err(error)) => from_postgres("connect to", path, &error),
                    _ => failed(no_answer(limit)),
                });
            }
        };
        // Another one cannot hold all texts: results would wait for ever to be sent.
        let encoding = connection.parameter("server_encoding").unwrap_or(ENCODING);
        if encoding != ENCODING {
            let reason = format!("encoding {encoding}, and a store needs {ENCODING}");
            return Err(StoreError::Encoding { path, reason });
        }
        // It runs while an answer is awaited; its end is the error of what is awaited.
        runtime.spawn(connection);
        Ok(Self {
            runtime,
            client,
            prepared: RefCell::default(),
            noted: RefCell::default(),
            known: RefCell::default(),
            is_ready: Cell::default(),
            path,
            action: Cell::new("open"),
        })
    }

    fn set_up(&self) -> Result<&Self, StoreError> {
        self.is_ready.set(true);
        self.batch(&settings()).map(|()| self)
    }

    fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        match self.runtime.block_on(async { timeout(ANSWER_TIMEOUT, answer).await }) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(from_postgres(self.action.get(), self.path.clone(), &error)),
            Err(_) => Err(StoreError::Server {
                action: self.action.get(),
                path: self.path.clone(),
                reason: no_answer(ANSWER_TIMEOUT),
            }),
        }
    }

    fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.wait(self.client.batch_execute(sql))
    }

    fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(known) = self.prepared.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = self.wait(self.client.prepare(&dialect(sql)))?;
        self.prepared.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn end(&self, sql: &str) -> Result<(), StoreError> {
        let ended = self.batch(sql);
        self.action.set(READ);
        ended
    }
}

const READ: &str = "read";

fn settings() -> String {
    let ms = |time: Duration| time.as_millis();
    format!(
        "SET search_path = fathom; SET lock_timeout = {}; SET statement_timeout = {};
         SET idle_in_transaction_session_timeout = {}; {PLANS};
         SELECT set_config('synchronous_commit', 'on', false)
            WHERE current_setting('synchronous_commit') = 'off'",
        ms(BUSY_TIMEOUT),
        ms(STATEMENT_TIMEOUT),
        ms(ANSWER_TIMEOUT),
    )
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}

impl Database for Postgres {
    fn query(
        &self,
        sql: &str,
        arguments: &[DatabaseValue<'_>],
        each: Each<'_>,
    ) -> Result<(), StoreError> {
        if self.is_noted(sql, arguments) {
            return Ok(());
        }
        let known = self.known.borrow().get(&ahead::key(sql, arguments)).cloned();
        if let Some(rows) = known {
            for row in rows.iter() {
                if each(row)? == ControlFlow::Break(()) {
                    break;
                }
            }
            return Ok(());
        }
        let rows = if self.action.get() == READ {
            // Not prepared: that would be a round trip more.
            let typed: Vec<_> = arguments.iter().copied().map(ahead::with_type).collect();
            self.wait(self.client.query_typed_raw(&dialect(sql), typed))?
        } else {
            let statement = self.prepare(sql)?;
            self.wait(self.client.query_raw(&statement, arguments.iter().copied()))?
        };
        let mut rows = pin!(rows);
        loop {
            let some = self.wait(async {
                let mut some = Vec::new();
                while some.len() < ROWS
                    && let Some(row) = rows.next().await
                {
                    some.push(row?);
                }
                Ok(some)
            })?;
            for row in &some {
                if each(row)? == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            if some.len() < ROWS {
                return Ok(());
            }
        }
    }

    fn begin(&self, access: DatabaseAccess) -> Result<(), StoreError> {
        if access == DatabaseAccess::Read {
            // What is read was asked ahead, in one snapshot.
            return Ok(());
        }
        self.action.set("write");
        self.batch("BEGIN").inspect_err(|_| self.action.set(READ))
    }

    fn commit(&self) -> Result<(), StoreError> {
        if self.action.get() == READ { Ok(()) } else { self.end("COMMIT") }
    }

    fn rollback(&self) {
        if self.action.get() == READ {
            return;
        }
        // Without a connection the server has done so.
        let _ = self.end("ROLLBACK");
    }

    fn collects(&self) -> bool {
        let mut noted = self.noted.borrow_mut();
        let begins = noted.is_none();
        noted.get_or_insert_default();
        begins
    }

    fn ask(&self) -> Result<(), StoreError> {
        self.ask_noted()
    }

    fn forget(&self, sql: &str, arguments: &[DatabaseValue<'_>]) {
        self.known.borrow_mut().remove(&ahead::key(sql, arguments));
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn for_update(&self) -> &'static str {
        " FOR UPDATE"
    }

    fn size(&self) -> Result<u64, StoreError> {
        let database: &dyn Database = self;
        let tables = "'{run,record,samples,headline}'::regclass[]";
        let query =
            format!("SELECT sum(pg_total_relation_size(it))::bigint FROM unnest({tables}) AS it");
        Ok(database.integer(&query, &[])?.try_into().unwrap_or_default())
    }

    fn compact(&self) {}
}

/// See [`crate::database`].
fn dialect(sql: &str) -> String {
    let mut whole = String::with_capacity(sql.len() + 16);
    let mut rest = sql.replace("CROSS JOIN", "JOIN");
    while let Some(at) = rest.find('?') {
        let end = rest[at + 1..].find(|c: char| !c.is_ascii_digit());
        let end = end.map_or(rest.len(), |end| at + 1 + end);
        let number = rest[at + 1..end].to_owned();
        let is_list = rest[..at].ends_with("(LIST ");
        let before = if is_list { &rest[..at - "LIST ".len()] } else { &rest[..at] };
        whole += before;
        whole += &match is_list {
            true => format!("SELECT unnest(${number}::bigint[])"),
            false => format!("${number}"),
        };
        rest.drain(..end);
    }
    whole + &rest
}

fn tls(address: &Address) -> Result<rustls::ClientConfig, String> {
    let trust = match (address.tls, &address.roots) {
        (TlsMode::VerifyFull, None) => Trust::System,
        (TlsMode::VerifyFull, Some(roots)) => {
            let text = std::fs::read_to_string(roots);
            Trust::Pem(text.map_err(|error| format!("read {}: {error}", roots.display()))?)
        }
        _ => Trust::All,
    };
    client_config(&trust).map_err(|error| lower_first(&error.to_string()))
}

const FOREIGN: &str = "its answer is not that of a PostgreSQL server; check host and port";

/// Whether another program answers at the address. The library has words for that only.
fn is_foreign(error: &Error) -> bool {
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let text = format!("{error}: {cause}");
    ["parsing response", "unexpected message", "remaining on stream", "corrupt message"]
        .iter()
        .any(|it| text.contains(it))
}

fn from_postgres(action: &'static str, path: PathBuf, error: &Error) -> StoreError {
    let Some(cause) = error.as_db_error() else {
        // The library's own words are few; those of the system or of TLS are the reason.
        let source = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        return StoreError::Server { action, path, reason: lower_first(&source) };
    };
    from_server(action, path, cause.code(), cause.message())
}

/// What a server said went wrong: any code, any message.
#[cfg(any(test, fuzzing))]
pub(crate) fn from_any_server(code: &str, message: &str) -> StoreError {
    from_server(READ, PathBuf::from("p"), &SqlState::from_code(code), message)
}

fn from_server(action: &'static str, path: PathBuf, code: &SqlState, message: &str) -> StoreError {
    let reason = lower_first(&shortened(message, MESSAGE_MAX));
    // A server may send any code.
    let class = code.code().get(..2).unwrap_or_default();
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return StoreError::Busy { action, path };
    }
    if *code == SqlState::DISK_FULL {
        let cause = system_cause(&Errno::NOSPC.into(), Activity::Write { lacks_inodes: false });
        return StoreError::Full { action, path, cause };
    }
    match class {
        // Of the login, the name of the database, and rights.
        "28" | "3D" => StoreError::Denied { action, path, reason },
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            StoreError::Denied { action, path, reason }
        }
        // Of the connection, the limits of the server, and its end.
        "08" | "53" | "57" => StoreError::Server { action, path, reason },
        "XX" => StoreError::Corrupt { action, path, reason },
        _ => StoreError::Other { action, path, reason },
    }
}

impl ToSql for DatabaseValue<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            DatabaseValue::Null => Ok(IsNull::Yes),
            DatabaseValue::Flag(flag) if *kind == Type::BOOL => flag.to_sql(kind, out),
            DatabaseValue::Flag(flag) => i64::from(*flag).to_sql(kind, out),
            DatabaseValue::Integer(number) => number.to_sql(kind, out),
            DatabaseValue::Real(number) => number.to_sql(kind, out),
            // The only character that no text of PostgreSQL can have. JSON has none either.
            DatabaseValue::Text(text) if text.contains('\0') => {
                text.replace('\0', "\u{fffd}").to_sql(kind, out)
            }
            DatabaseValue::Text(text) => text.to_sql(kind, out),
            DatabaseValue::Bytes(bytes) => bytes.to_sql(kind, out),
            DatabaseValue::List(numbers) => numbers.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A column as the server sends it.
struct Raw<'r>(&'r [u8]);

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl DatabaseRow for tokio_postgres::Row {
    fn integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        // `bigint`, `integer` and `boolean`.
        Ok(match *self.bytes(column).unwrap_or_default() {
            [a, b, c, d, e, f, g, h] => Some(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
            [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
            [bit] => Some(bit.into()),
            _ => None,
        })
    }

    fn real(&self, column: usize) -> Result<Option<f64>, StoreError> {
        Ok(self.bytes(column).and_then(|raw| raw.try_into().ok()).map(f64::from_be_bytes))
    }

    fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.try_get::<_, Option<Raw<'_>>>(column).ok().flatten().map(|raw| raw.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It accepts connections, and says nothing.
    #[test]
    fn silent_server_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::parse(&format!("postgres://ada@127.0.0.1:{port}/d")).unwrap();
        let error = Postgres::connect(&address, Duration::from_millis(20)).unwrap_err();
        let text = format!("connect to postgres://ada@127.0.0.1:{port}/d: no answer within 0 s");
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn server_of_another_protocol_is_named() {
        for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2p1\r\n"] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = std::thread::spawn(move || {
                use std::io::{Read, Write};

                let mut end = listener.accept().unwrap().0;
                let _ = end.read(&mut [0; 64]);
                end.write_all(answer.as_bytes()).unwrap();
                let _ = end.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut end, &mut std::io::sink());
            });
            let address = Address::parse(&format!("postgres://ada@127.0.0.1:{port}/d")).unwrap();
            let error = Postgres::connect(&address, CONNECT_TIMEOUT).unwrap_err().to_string();
            assert!(error.ends_with(FOREIGN), "{answer:?}: {error}");
            server.join().unwrap();
        }
    }

    #[test]
    fn any_code_and_message_of_a_server_is_one_error() {
        for code in ["", "X", "4é", "é", "XX", "57P01"] {
            let message = "Ω".repeat(10_000_000);
            let error = from_any_server(code, &message);
            assert!(error.to_string().chars().count() < 400, "{code}");
            assert_eq!(matches!(error, StoreError::Corrupt { .. }), code == "XX");
        }
    }

    #[test]
    fn statements_are_translated() {
        for (sql, expected) in [
            ("SELECT 1", "SELECT 1"),
            ("a = ?1 AND b = ?12", "a = $1 AND b = $12"),
            ("a CROSS JOIN b ON ?2", "a JOIN b ON $2"),
            ("a IN (LIST ?1) AND ?2", "a IN (SELECT unnest($1::bigint[])) AND $2"),
        ] {
            assert_eq!(dialect(sql), expected);
        }
    }
}
