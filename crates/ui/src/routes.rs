//! The page at every address, and the data of its views below `/api`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{Response, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use fathom_service::{Names, Token};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::guard::guard;
use crate::view::{HistoryOf, Label, Pair, Problem, RunsOf, View, Views, run};

/// The beginning of the paths of data.
pub(crate) const API: &str = "/api/";
/// Threads that make data; a measurement may use the other CPUs.
pub(crate) const THREADS: usize = 2;
/// Requests that wait for those threads or are worked on.
const WAITING_MAX: usize = 32;
/// The longest wait for data; a store is waited for no longer than 10 s.
const ANSWER_TIME: Duration = Duration::from_secs(60);

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) page: &'static str,
    pub(crate) token: Option<Token>,
    pub(crate) names: Names,
    pub(crate) views: Arc<dyn Views>,
    /// Places of requests for data.
    pub(crate) places: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(
        page: &'static str,
        token: Option<Token>,
        names: Vec<String>,
        views: Arc<dyn Views>,
    ) -> Arc<Self> {
        let (names, places) = (Names::and_host(names), Arc::new(Semaphore::new(WAITING_MAX)));
        Arc::new(Self { page, token, names, views, places })
    }
}

type Queried<T> = Result<Query<T>, QueryRejection>;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/run/{run}", get(page))
        .route("/compare", get(page))
        .route("/history", get(page))
        .route("/hosts", get(page))
        .route("/api/runs", get(runs))
        .route("/api/run/{run}", get(one))
        .route("/api/compare", get(compare))
        .route("/api/history", get(history))
        .route("/api/hosts", get(hosts))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "no such page; / lists the runs"))
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// It has no data, so that it needs no token.
async fn page(State(shared): State<Arc<Shared>>) -> Response<Body> {
    // Each view has another address: kept, but asked for again by every new program.
    response(StatusCode::OK, HTML, "no-cache", Body::from(shared.page))
}

async fn runs(State(shared): State<Arc<Shared>>, query: Queried<RunsOf>) -> Response<Body> {
    answer(shared, queried(query).and_then(RunsOf::view)).await
}

async fn one(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<String>, PathRejection>,
) -> Response<Body> {
    let path = path.map_err(|error| Problem::Wrong(error.body_text()));
    answer(shared, path.and_then(|Path(name)| run(name))).await
}

async fn compare(State(shared): State<Arc<Shared>>, query: Queried<Pair>) -> Response<Body> {
    answer(shared, queried(query).and_then(Pair::view)).await
}

async fn history(State(shared): State<Arc<Shared>>, query: Queried<HistoryOf>) -> Response<Body> {
    answer(shared, queried(query).and_then(HistoryOf::view)).await
}

async fn hosts(State(shared): State<Arc<Shared>>, query: Queried<Label>) -> Response<Body> {
    answer(shared, queried(query).and_then(Label::view)).await
}

fn queried<T>(query: Queried<T>) -> Result<T, Problem> {
    query.map(|Query(it)| it).map_err(|error| Problem::Wrong(error.body_text()))
}

/// The data of a view, made in a thread that may wait for the store.
async fn answer(shared: Arc<Shared>, view: Result<View, Problem>) -> Response<Body> {
    let view = match view {
        Ok(view) => view,
        Err(problem) => return refused(&problem),
    };
    let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() else {
        let line = format!("{WAITING_MAX} requests wait for the store; try again");
        return refused(&Problem::Unavailable(line));
    };
    let work = spawn_blocking(move || {
        // Held for as long as the thread is busy, even if nobody waits any more.
        let _place = place;
        shared.views.data(&view)
    });
    match timeout(ANSWER_TIME, work).await {
        Ok(Ok(Ok(data))) => response(StatusCode::OK, JSON, "no-store", Body::from(data)),
        Ok(Ok(Err(problem))) => refused(&problem),
        Ok(Err(_)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "this view failed; report it"),
        Err(_) => {
            let seconds = ANSWER_TIME.as_secs();
            let line = format!("the store did not answer within {seconds} s; try again");
            refused(&Problem::Unavailable(line))
        }
    }
}

fn refused(problem: &Problem) -> Response<Body> {
    match problem {
        Problem::Wrong(line) => refusal(StatusCode::BAD_REQUEST, line),
        Problem::Missing(line) => refusal(StatusCode::NOT_FOUND, line),
        Problem::Damaged(line) => refusal(StatusCode::UNPROCESSABLE_ENTITY, line),
        Problem::Unavailable(line) => {
            let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, line);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            response
        }
    }
}

/// A refusal with its reason in one line.
pub(crate) fn refusal(status: StatusCode, line: &str) -> Response<Body> {
    let line = line.lines().collect::<Vec<_>>().join(" ");
    response(status, JSON, "no-store", Body::from(json!({ "error": line }).to_string()))
}

fn response(status: StatusCode, media: &'static str, kept: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    response
}
