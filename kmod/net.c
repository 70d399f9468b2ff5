// SPDX-License-Identifier: GPL-2.0
/* Sockets of a session: listen, accept, connect, attach, finish; waiting and polling. */
#include <linux/file.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/sched/signal.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "session.h"

/* Connections that may wait for ACCEPT. */
#define FATHOM_BACKLOG 16

/* Room for the address of both families, also for the kernel's functions to fill. */
union fathom_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

/*
 * Polls a socket without a poll table: whoever waits does so in the session's queue. It calls the
 * protocol, since sock_poll() may poll the network device too, which must not happen in the
 * condition of a wait.
 */
static __poll_t fathom_socket_events(struct file *file)
{
	struct socket *socket = sock_from_file(file);

	return READ_ONCE(socket->ops)->poll(file, socket, NULL);
}

/*
 * Pollers cannot wait in the socket's own queue: DETACH may free the socket while they wait. The
 * socket's callbacks are left alone as well, since it may belong to a program.
 */
static int fathom_wake(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	struct fathom_link *link = container_of(entry, struct fathom_link, entry);
	struct fathom_session *s = link->session;
	__poll_t events = key_to_poll(key);

	wake_up_interruptible_poll(&s->wait, events);
	kill_fasync(&s->fasync, SIGIO, events & EPOLLOUT ? POLL_OUT : POLL_IN);
	return 0;
}

/* Takes over the reference to the file. */
static void fathom_link(struct fathom_link *link, struct file *file)
{
	struct fathom_session *s = link->session;

	init_waitqueue_func_entry(&link->entry, fathom_wake);
	add_wait_queue(&sock_from_file(file)->wq.wait, &link->entry);
	spin_lock(&s->link_lock);
	link->file = file;
	spin_unlock(&s->link_lock);
}

void fathom_unlink(struct fathom_link *link)
{
	struct fathom_session *s = link->session;
	struct file *file = link->file;

	if (!file)
		return;
	spin_lock(&s->link_lock);
	link->file = NULL;
	spin_unlock(&s->link_lock);
	/* No wake-up is under way afterwards. */
	remove_wait_queue(&sock_from_file(file)->wq.wait, &link->entry);
	fput(file);
	wake_up_interruptible_poll(&s->wait, EPOLLHUP);
}

/* A new connection; takes over the reference to the file. */
static void fathom_start(struct fathom_session *s, struct file *file)
{
	s->framed = false;
	s->frame_left = 0;
	s->head_done = 0;
	s->stats.connections++;
	fathom_link(&s->connection, file);
}

__poll_t fathom_poll(struct file *file, struct poll_table_struct *table)
{
	struct fathom_session *s = file->private_data;
	struct file *socket;
	__poll_t events;

	poll_wait(file, &s->wait, table);
	spin_lock(&s->link_lock);
	socket = s->connection.file ?: s->listener.file;
	if (socket)
		get_file(socket);
	spin_unlock(&s->link_lock);
	if (!socket)
		return EPOLLHUP;
	events = fathom_socket_events(socket);
	fput(socket);
	return events;
}

/*
 * Not EPOLLERR: a socket of a program may have messages in its error queue, and waiting would turn
 * into a busy loop.
 */
static bool fathom_ready(struct file *socket, __poll_t events)
{
	return (fathom_socket_events(socket) & (events | EPOLLHUP)) ||
	       READ_ONCE(sock_from_file(socket)->sk->sk_err);
}

/* Waits for an event, the end of the connection or an error of the socket. */
int fathom_wait(struct fathom_session *s, struct file *socket, __poll_t events,
		unsigned long deadline)
{
	long left = deadline - jiffies;
	u64 start_ns;

	if (signal_pending(current))
		return -EINTR;
	if (fathom_ready(socket, events))
		return 0;
	if (left <= 0)
		return -ETIMEDOUT;
	start_ns = ktime_get_ns();
	left = wait_event_interruptible_timeout(s->wait, fathom_ready(socket, events), left);
	s->stats.waits++;
	s->stats.waits_ns += ktime_get_ns() - start_ns;
	if (left < 0)
		return -EINTR;
	return left ? 0 : -ETIMEDOUT;
}

/* Returns the length of the socket address. */
static int fathom_from_endpoint(const struct fathom_endpoint *endpoint, union fathom_sockaddr *to)
{
	if (endpoint->reserved)
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	switch (endpoint->family) {
	case AF_INET:
		if (endpoint->scope_id || memchr_inv(endpoint->address + 4, 0, 12))
			return -EINVAL;
		to->v4.sin_family = AF_INET;
		to->v4.sin_port = htons(endpoint->port);
		memcpy(&to->v4.sin_addr, endpoint->address, 4);
		return sizeof(to->v4);
	case AF_INET6:
		to->v6.sin6_family = AF_INET6;
		to->v6.sin6_port = htons(endpoint->port);
		to->v6.sin6_scope_id = endpoint->scope_id;
		memcpy(&to->v6.sin6_addr, endpoint->address, 16);
		return sizeof(to->v6);
	default:
		return -EAFNOSUPPORT;
	}
}

static void fathom_to_endpoint(const union fathom_sockaddr *from, struct fathom_endpoint *endpoint)
{
	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->family = from->any.sa_family;
	if (endpoint->family == AF_INET) {
		endpoint->port = ntohs(from->v4.sin_port);
		memcpy(endpoint->address, &from->v4.sin_addr, 4);
	} else {
		endpoint->port = ntohs(from->v6.sin6_port);
		endpoint->scope_id = from->v6.sin6_scope_id;
		memcpy(endpoint->address, &from->v6.sin6_addr, 16);
	}
}

/* Gives a socket a file, which owns it; on failure the socket is released. */
static struct file *fathom_socket_file(struct socket *socket)
{
	if (fathom_fails()) {
		sock_release(socket);
		return ERR_PTR(-ENOMEM);
	}
	return sock_alloc_file(socket, 0, NULL);
}

static struct file *fathom_socket(struct fathom_session *s, int family)
{
	struct socket *socket;
	int result;

	if (fathom_fails())
		return ERR_PTR(-ENOMEM);
	/* Not a kernel socket: those do not hold the namespace while TCP closes the connection. */
	result = __sock_create(s->net, family, SOCK_STREAM, IPPROTO_TCP, &socket, 0);
	if (result)
		return ERR_PTR(result);
	return fathom_socket_file(socket);
}

int fathom_listen(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	union fathom_sockaddr address;
	struct socket *socket;
	struct file *own;
	int result;

	if (s->listener.file)
		return -EISCONN;
	if (arg->endpoint.timeout_ms)
		return -EINVAL;
	result = fathom_from_endpoint(&arg->endpoint, &address);
	if (result < 0)
		return result;
	own = fathom_socket(s, arg->endpoint.family);
	if (IS_ERR(own))
		return PTR_ERR(own);
	socket = sock_from_file(own);
	/* A port whose last connection is in TIME_WAIT can be used again. */
	sock_set_reuseaddr(socket->sk);
	result = kernel_bind(socket, &address.any, result);
	if (!result)
		result = kernel_listen(socket, FATHOM_BACKLOG);
	if (!result)
		result = kernel_getsockname(socket, &address.any);
	if (result < 0) {
		fput(own);
		return result;
	}
	fathom_to_endpoint(&address, &arg->endpoint);
	fathom_link(&s->listener, own);
	return 0;
}

int fathom_accept(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	union fathom_sockaddr address = {};
	struct socket *socket;
	unsigned long deadline;
	struct file *own;
	int result;

	if (s->connection.file)
		return -EISCONN;
	if (!s->listener.file)
		return -EDESTADDRREQ;
	result = fathom_deadline(arg->endpoint.timeout_ms, &deadline);
	if (result || arg->endpoint.reserved)
		return -EINVAL;
	for (;;) {
		result = kernel_accept(sock_from_file(s->listener.file), &socket, O_NONBLOCK);
		if (!result)
			break;
		if (result != -EAGAIN || fathom_nonblocking(file))
			return result;
		result = fathom_wait(s, s->listener.file, EPOLLIN, deadline);
		if (result)
			return result;
	}
	own = fathom_socket_file(socket);
	if (IS_ERR(own))
		return PTR_ERR(own);
	tcp_sock_set_nodelay(socket->sk);
	/* Fails if the peer has reset the connection already; the address is unspecified then. */
	if (kernel_getpeername(socket, &address.any) < 0)
		address.any.sa_family = socket->sk->sk_family;
	fathom_to_endpoint(&address, &arg->endpoint);
	fathom_start(s, own);
	return 0;
}

int fathom_connect(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	union fathom_sockaddr address;
	struct socket *socket;
	unsigned long deadline;
	struct file *own;
	int length;
	int result;

	if (s->connection.file)
		return -EISCONN;
	length = fathom_from_endpoint(&arg->endpoint, &address);
	if (length < 0)
		return length;
	result = fathom_deadline(arg->endpoint.timeout_ms, &deadline);
	if (result)
		return result;
	own = fathom_socket(s, arg->endpoint.family);
	if (IS_ERR(own))
		return PTR_ERR(own);
	socket = sock_from_file(own);
	tcp_sock_set_nodelay(socket->sk);
	fathom_start(s, own);
	result = kernel_connect(socket, &address.any, length, O_NONBLOCK);
	if (result == -EINPROGRESS) {
		result = fathom_wait(s, own, EPOLLOUT, deadline);
		/* The second call returns how the first one ended. */
		if (!result)
			result = kernel_connect(socket, &address.any, length, O_NONBLOCK);
	}
	if (result) {
		fathom_unlink(&s->connection);
		s->stats.connections--;
	}
	return result;
}

static int fathom_attachable(const struct fathom_session *s, struct file *other)
{
	struct socket *socket = sock_from_file(other);
	const struct sock *sk;

	if (!socket)
		return -ENOTSOCK;
	sk = socket->sk;
	if (!sk_is_tcp(sk) || (sk->sk_family != AF_INET && sk->sk_family != AF_INET6))
		return -EPROTONOSUPPORT;
	if (!net_eq(sock_net(sk), s->net))
		return -EXDEV;
	/* In CLOSE_WAIT the peer has sent everything, and received bytes may be left. */
	if (!((1 << READ_ONCE(sk->sk_state)) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT)))
		return -ENOTCONN;
	return 0;
}

int fathom_attach(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	struct file *other;
	int result;

	if (s->connection.file)
		return -EISCONN;
	if (arg->attach.reserved)
		return -EINVAL;
	other = fget(arg->attach.fd);
	if (!other)
		return -EBADF;
	result = fathom_attachable(s, other);
	if (result) {
		fput(other);
		return result;
	}
	fathom_start(s, other);
	return 0;
}

int fathom_detach(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	if (!s->connection.file)
		return -ENOTCONN;
	fathom_unlink(&s->connection);
	return 0;
}

int fathom_finish(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	unsigned long deadline;
	struct socket *socket;
	int result;

	if (!s->connection.file)
		return -ENOTCONN;
	result = fathom_deadline(arg->finish.timeout_ms, &deadline);
	if (result || arg->finish.reserved)
		return -EINVAL;
	socket = sock_from_file(s->connection.file);
	/* Repeated calls are fine, also after the connection is closed in both directions. */
	if (!(READ_ONCE(socket->sk->sk_shutdown) & SEND_SHUTDOWN))
		result = kernel_sock_shutdown(socket, SHUT_WR);
	if (!result)
		result = fathom_wait(s, s->connection.file, EPOLLRDHUP, deadline);
	/* A reset is the cause, where there was one. */
	return sock_error(socket->sk) ?: result;
}
