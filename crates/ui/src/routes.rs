//! The page at every address, and the data of its views below `/api`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{Response, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::guard::guard;
use crate::response::{HTML, JSON, refusal, refused, response};
use crate::seats::{Seat, SeatState, Unread};
use crate::shared::{Shared, WAITING_MAX};
use crate::view::{HistoryOf, Label, Pair, Problem, RunsOf, View, run};

/// Threads that make data; a measurement may use the other CPUs.
pub(crate) const THREADS: usize = 2;
/// The longest wait for data; a store is waited for no longer than 10 s.
const ANSWER_TIME: Duration = Duration::from_secs(60);

type Queried<T> = Result<Query<T>, QueryRejection>;
/// The place of the connection.
type Seated = Extension<Arc<Seat>>;

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
    // Another version of the program has another page; the back button may show the same.
    response(StatusCode::OK, HTML, "no-cache", Body::from(shared.page))
}

async fn runs(
    State(shared): State<Arc<Shared>>,
    Extension(seat): Seated,
    query: Queried<RunsOf>,
) -> Response<Body> {
    answer(shared, seat, queried(query).and_then(RunsOf::view)).await
}

async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(seat): Seated,
    path: Result<Path<String>, PathRejection>,
) -> Response<Body> {
    let path = path.map_err(|error| Problem::Wrong(error.body_text()));
    answer(shared, seat, path.and_then(|Path(name)| run(name))).await
}

async fn compare(
    State(shared): State<Arc<Shared>>,
    Extension(seat): Seated,
    query: Queried<Pair>,
) -> Response<Body> {
    answer(shared, seat, queried(query).and_then(Pair::view)).await
}

async fn history(
    State(shared): State<Arc<Shared>>,
    Extension(seat): Seated,
    query: Queried<HistoryOf>,
) -> Response<Body> {
    answer(shared, seat, queried(query).and_then(HistoryOf::view)).await
}

async fn hosts(
    State(shared): State<Arc<Shared>>,
    Extension(seat): Seated,
    query: Queried<Label>,
) -> Response<Body> {
    answer(shared, seat, queried(query).and_then(Label::view)).await
}

fn queried<T>(query: Queried<T>) -> Result<T, Problem> {
    query.map(|Query(it)| it).map_err(|error| Problem::Wrong(error.body_text()))
}

/// The data of a view, made in a thread that may wait for the store.
async fn answer(
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    view: Result<View, Problem>,
) -> Response<Body> {
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
        let data = shared.views.data(&view)?;
        let Some(held) = shared.budget.hold(data.len() as u64) else {
            // Its memory is free for the next request.
            shared.seats.free_memory();
            let line = "too many clients have not read their data; try again".to_owned();
            return Err(Problem::Unavailable(line));
        };
        seat.set(SeatState::Unread((shared.seats.clock)()));
        Ok(Bytes::from_owner(Unread { data, held, seat }))
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
