//! Statements that read, asked together: a server far away costs one round trip for all of them.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use futures_util::TryStreamExt as _;
use futures_util::future::{MaybeDone, maybe_done};
use tokio_postgres::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Row, SimpleQueryMessage};

use super::{Postgres, READ, dialect, from_postgres, schema};
use crate::StoreError;
use crate::database::DatabaseValue;
use crate::tables::VERSION;

pub(super) const READ_ONLY: &str = "SET default_transaction_read_only = on";
const VERSION_QUERY: &str = "SELECT version FROM fathom.store";

/// A statement with its arguments, for later.
pub(super) struct Noted {
    key: String,
    sql: String,
    arguments: Vec<(Encoded, Type)>,
}

/// An argument as it is sent.
#[derive(Clone, Debug)]
struct Encoded(Option<BytesMut>);

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(self.0.as_ref().map_or(IsNull::Yes, |bytes| {
            out.extend_from_slice(bytes);
            IsNull::No
        }))
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn encoded(value: DatabaseValue<'_>) -> (Encoded, Type) {
    let ((value, kind), mut bytes) = (with_type(value), BytesMut::new());
    let is_null = !matches!(value.to_sql(&kind, &mut bytes), Ok(IsNull::No));
    (Encoded((!is_null).then_some(bytes)), kind)
}

/// The value with its type, so that the server need not be asked for it.
pub(super) fn with_type(value: DatabaseValue<'_>) -> (DatabaseValue<'_>, Type) {
    let kind = match value {
        // The server infers it.
        DatabaseValue::Null => Type::UNKNOWN,
        DatabaseValue::Flag(_) => Type::BOOL,
        DatabaseValue::Integer(_) => Type::INT8,
        DatabaseValue::Real(_) => Type::FLOAT8,
        DatabaseValue::Text(_) => Type::TEXT,
        DatabaseValue::Bytes(_) => Type::BYTEA,
        DatabaseValue::List(_) => Type::INT8_ARRAY,
    };
    (value, kind)
}

pub(super) fn key(sql: &str, arguments: &[DatabaseValue<'_>]) -> String {
    format!("{sql}{arguments:?}")
}

enum Answered {
    Settings(Vec<SimpleQueryMessage>),
    Rows(Vec<Row>),
    Done,
}

type Asked<'a> = Pin<Box<MaybeDone<Pin<Box<dyn Future<Output = Result<Answered, Error>> + 'a>>>>>;

fn asked<'a>(future: impl Future<Output = Result<Answered, Error>> + 'a) -> Asked<'a> {
    Box::pin(maybe_done(Box::pin(future) as _))
}

impl Postgres {
    /// Notes a statement, while statements are collected.
    pub(super) fn is_noted(&self, sql: &str, arguments: &[DatabaseValue<'_>]) -> bool {
        let mut noted = self.noted.borrow_mut();
        let Some(noted) = noted.as_mut() else { return false };
        let key = key(sql, arguments);
        if !self.known.borrow().contains_key(&key) && noted.iter().all(|it| it.key != key) {
            let arguments = arguments.iter().map(|value| encoded(*value)).collect();
            noted.push(Noted { key, sql: dialect(sql), arguments });
        }
        true
    }

    /// Asks what was noted, at first with the settings of the connection and the version of the
    /// tables. All is sent before the first answer is awaited.
    pub(super) fn ask_noted(&self) -> Result<(), StoreError> {
        let noted = self.noted.take().unwrap_or_default();
        let is_first = !self.is_ready.replace(true);
        let (client, settings) =
            (&self.client, format!("{}; {READ_ONLY}; {VERSION_QUERY}", super::settings()));
        let done =
            |sql| asked(async move { client.batch_execute(sql).await.map(|()| Answered::Done) });
        let mut all = Vec::new();
        if is_first {
            let settings = client.simple_query(&settings);
            all.push(asked(async { settings.await.map(Answered::Settings) }));
        }
        if !noted.is_empty() {
            all.push(done("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
            all.extend(noted.iter().map(|it| {
                asked(async {
                    let arguments = it.arguments.iter().cloned();
                    let rows = client.query_typed_raw(&it.sql, arguments).await?;
                    rows.try_collect().await.map(Answered::Rows)
                })
            }));
            // Also of a transaction that has failed: it ends.
            all.push(done("COMMIT"));
        }
        self.wait(async {
            poll_fn(|context| {
                for one in &mut all {
                    let _ = one.as_mut().poll(context);
                }
                Poll::Ready(())
            })
            .await;
            Ok(())
        })?;
        let mut answers = Vec::new();
        // Each has the time that it would have alone.
        for one in &mut all {
            self.wait(async {
                one.as_mut().await;
                Ok(())
            })?;
            answers.extend(one.as_mut().take_output());
        }
        drop(all);
        let mut answers = answers.into_iter();
        if is_first && !matches!(answers.next(), Some(Ok(answered)) if answered.is_current()) {
            // No store, an older one, or one that this role must not read: step by step.
            self.batch(&super::settings())?;
            schema::require(self)?;
            return self.batch(READ_ONLY);
        }
        let mut noted = noted.into_iter();
        for answer in answers {
            let answer = answer.map_err(|error| from_postgres(READ, self.path.clone(), &error))?;
            if let Answered::Rows(rows) = answer
                && let Some(Noted { key, .. }) = noted.next()
            {
                self.known.borrow_mut().insert(key, Arc::new(rows));
            }
        }
        Ok(())
    }
}

impl Answered {
    /// Whether the tables are of this version.
    fn is_current(&self) -> bool {
        let Self::Settings(messages) = self else { return false };
        messages.iter().any(|message| match message {
            SimpleQueryMessage::Row(row) => {
                row.try_get("version").ok().flatten() == Some(&*VERSION.to_string())
            }
            _ => false,
        })
    }
}
