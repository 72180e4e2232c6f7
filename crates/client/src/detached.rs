//! Calls of several requests that go on to their end when nobody waits for them any more.

use async_task::Runnable;
use futures_channel::oneshot;

/// What `call` gives. It is begun now; each answer that it waits for carries it on, on the thread that brings it.
pub(crate) fn detached<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Option<T>> + Send {
    let (tell, told) = oneshot::channel();
    let called = async move {
        // Perhaps nobody hears it.
        _ = tell.send(call.await);
    };
    let (first, task) = async_task::spawn(called, |next: Runnable| _ = next.run());
    task.detach();
    first.run();
    async { told.await.ok() }
}
