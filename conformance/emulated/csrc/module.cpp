// What Python sees: see device.py, which makes a device module of it.
#include <torch/csrc/utils/pybind.h>

#include "collectives.h"
#include "device.h"
#include "memory.h"
#include "stream.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("register_device", &emulated::register_device);
  module.def("device_count", [] { return int(emulated::device_count()); });
  module.def("set_device_count", [](int count) { emulated::set_device_count(static_cast<c10::DeviceIndex>(count)); });
  module.def("current_device", [] { return int(emulated::current_device()); });
  module.def("set_device", [](int device) { emulated::set_current_device(static_cast<c10::DeviceIndex>(device)); });
  module.def(
      "synchronize",
      [](int device) { emulated::synchronize(static_cast<c10::DeviceIndex>(device)); },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "default_generator", [](int device) { return emulated::default_generator(static_cast<c10::DeviceIndex>(device)); });
  module.def("in_bad_fork", &emulated::in_bad_fork);
  py::class_<emulated::Collectives, c10::intrusive_ptr<emulated::Collectives>, c10d::Backend>(module, "Collectives")
      .def(
          py::init<c10::intrusive_ptr<c10d::Backend>, int, int>(), py::arg("transport"), py::arg("rank"), py::arg("size"),
          py::call_guard<py::gil_scoped_release>());
}
