// SPDX-License-Identifier: GPL-2.0
/* Moves bytes between a connection and a user buffer, the window or the length of a frame. */
#include <linux/sched/signal.h>
#include <net/sock.h>

#include "session.h"

/*
 * Sends from or receives into all of `iter`, or with `some` until a first part was moved. Returns
 * the number of bytes, or the error if it is 0.
 */
static ssize_t fathom_move(struct fathom_session *s, struct iov_iter *iter, bool some,
			   bool nonblocking, unsigned long deadline)
{
	struct socket *socket = sock_from_file(s->connection.file);
	bool sends = s->role == FATHOM_ROLE_MASTER;
	ssize_t done = 0;
	ssize_t n = 0;

	while (iov_iter_count(iter)) {
		struct msghdr message = {
			.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
			.msg_iter = *iter,
		};

		if (sends)
			n = sock_sendmsg(socket, &message);
		else
			n = sock_recvmsg(socket, &message, MSG_DONTWAIT);
		if (n > 0) {
			iov_iter_advance(iter, n);
			done += n;
			if (some || signal_pending(current))
				break;
			continue;
		}
		if (n != -EAGAIN || nonblocking)
			break;
		n = fathom_wait(s, s->connection.file, sends ? EPOLLOUT : EPOLLIN, deadline);
		if (n)
			break;
	}
	return done ?: n;
}

/* Moves bytes of a file, at most to the end of the frame. */
static ssize_t fathom_payload(struct fathom_session *s, struct iov_iter *iter, bool some,
			      bool nonblocking, unsigned long deadline)
{
	ssize_t n;

	if (!s->connection.file)
		return -ENOTCONN;
	if (!iov_iter_count(iter))
		return 0;
	if (s->framed) {
		if (!s->frame_left)
			return s->role == FATHOM_ROLE_MASTER ? -ENOSPC : 0;
		iov_iter_truncate(iter, s->frame_left);
	}
	n = fathom_move(s, iter, some, nonblocking, deadline);
	if (n > 0) {
		s->stats.bytes += n;
		s->stats.calls++;
		if (s->framed)
			s->frame_left -= n;
	} else if (n == 0 && s->framed) {
		/* The peer closed the connection within the frame. */
		n = -ECONNRESET;
	}
	return n;
}

static ssize_t fathom_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct fathom_session *s = iocb->ki_filp->private_data;
	bool nonblocking = fathom_nonblocking(iocb->ki_filp) || (iocb->ki_flags & IOCB_NOWAIT);
	unsigned long deadline;
	ssize_t result;

	result = fathom_lock(s, nonblocking);
	if (result)
		return result;
	fathom_deadline(0, &deadline);
	result = fathom_payload(s, iter, s->role == FATHOM_ROLE_SLAVE, nonblocking, deadline);
	mutex_unlock(&s->lock);
	return result;
}

ssize_t fathom_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	return fathom_iter(iocb, to);
}

ssize_t fathom_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	return fathom_iter(iocb, from);
}

int fathom_frame(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	bool sends = s->role == FATHOM_ROLE_MASTER;
	struct fathom_frame *frame = &arg->frame;
	unsigned long deadline;
	int result;

	if (!s->connection.file)
		return -ENOTCONN;
	if (s->frame_left)
		return -EBUSY;
	result = fathom_deadline(frame->timeout_ms, &deadline);
	if (result || frame->reserved || (sends && frame->length > S64_MAX))
		return -EINVAL;
	if (sends && !s->head_done)
		s->head = cpu_to_be64(frame->length);
	else if (sends && be64_to_cpu(s->head) != frame->length)
		return -EINVAL;
	/* An interrupted call is repeated: what was moved of the length must not be moved again. */
	while (s->head_done < sizeof(s->head)) {
		struct kvec part = {
			.iov_base = (u8 *)&s->head + s->head_done,
			.iov_len = sizeof(s->head) - s->head_done,
		};
		struct iov_iter iter;
		ssize_t n;

		iov_iter_kvec(&iter, sends ? ITER_SOURCE : ITER_DEST, &part, 1, part.iov_len);
		n = fathom_move(s, &iter, false, fathom_nonblocking(file), deadline);
		if (n < 0)
			return n;
		if (n == 0)
			return s->head_done ? -ECONNRESET : -ENODATA;
		s->head_done += n;
	}
	frame->length = be64_to_cpu(s->head);
	if (frame->length > S64_MAX)
		return -EPROTO;
	s->head_done = 0;
	s->framed = true;
	s->frame_left = frame->length;
	s->stats.frames++;
	return 0;
}

static int fathom_transfer(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	const struct fathom_transfer *transfer = &arg->transfer;
	bool sends = s->role == FATHOM_ROLE_MASTER;
	unsigned long deadline;
	struct iov_iter iter;
	struct kvec part;
	u64 end = (u64)transfer->offset + transfer->length;
	int result;

	if (!(file->f_mode & (sends ? FMODE_WRITE : FMODE_READ)))
		return -EBADF;
	/* Only WINDOW replaces it, and that takes the session's lock too. */
	if (!s->window)
		return -ENXIO;
	result = fathom_deadline(transfer->timeout_ms, &deadline);
	if (result || transfer->reserved || !transfer->length)
		return -EINVAL;
	if (end > (u64)s->window_pages << PAGE_SHIFT)
		return -EINVAL;
	part.iov_base = s->window + transfer->offset;
	part.iov_len = transfer->length;
	iov_iter_kvec(&iter, sends ? ITER_SOURCE : ITER_DEST, &part, 1, part.iov_len);
	return fathom_payload(s, &iter, false, fathom_nonblocking(file), deadline);
}

int fathom_send(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	if (s->role != FATHOM_ROLE_MASTER)
		return -EOPNOTSUPP;
	return fathom_transfer(s, arg, file);
}

int fathom_receive(struct fathom_session *s, union fathom_argument *arg, struct file *file)
{
	if (s->role != FATHOM_ROLE_SLAVE)
		return -EOPNOTSUPP;
	return fathom_transfer(s, arg, file);
}
