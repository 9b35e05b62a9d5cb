#pragma once

#include <functional>

#include "weft/weft.h"

namespace weft_python {

/// Calls `work` without the GIL, which the caller holds. On Python's main thread it runs on a
/// thread of its own, while this one looks for signals: what a handler raises (KeyboardInterrupt)
/// cancels the token, and is thrown here when `work` has returned.
void run_interruptibly(weft::CancellationToken& cancel, const std::function<void()>& work);

/// Whether signals reach the calling thread.
bool on_main_thread();

/// Notes which thread that is.
void find_main_thread();

}  // namespace weft_python
