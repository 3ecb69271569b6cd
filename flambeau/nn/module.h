// Module: named parameters, buffers and modules, and what is done with all of
// them at once. Holder: the shared handle through which layers are used,
// `nn::Linear` for a `nn::LinearImpl`.
#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flambeau/core/tensor.h"
#include "flambeau/serialize/serialize.h"

namespace flambeau::nn {

using serialize::StateDict;
template <class Impl>
class Holder;

class FL_API Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // What Sequential calls. A module with other arguments declares a forward of
  // its own.
  virtual Tensor forward(const Tensor& input);

  // Each returns what it was given, to be kept as a member. An undefined tensor
  // is no parameter.
  Tensor register_parameter(std::string name, Tensor value, bool requires_grad = true);
  Tensor register_buffer(std::string name, Tensor value);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_module(std::move(name), module);
    return module;
  }
  template <class Impl>
  Holder<Impl> register_module(std::string name, Holder<Impl> module) {
    add_module(std::move(name), module.ptr());
    return module;
  }

  // Own ones first, then those of the modules in order of registration. A
  // tensor that stands under two names is listed once, except in the state
  // dict.
  std::vector<Tensor> parameters() const;
  StateDict named_parameters() const;
  StateDict named_buffers() const;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> named_children() const {
    return modules_;
  }

  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();
  // Converts parameters and buffers of floating dtype; they stay the same
  // tensors.
  void to(DType dtype);
  void to(Device device);

  // Parameters and buffers without history, on the module's own memory.
  StateDict state_dict() const;
  // Copies values in. The names must be the module's unless `strict` is false.
  void load_state_dict(const StateDict& state, bool strict = true);

 private:
  using Tensors = StateDict;
  void add_module(std::string name, std::shared_ptr<Module> module);
  void check_name(const std::string& name) const;
  // Adds the tensors of a kind, with their full names.
  void collect(Tensors Module::*kind, const std::string& prefix, Tensors& out) const;
  void collect_state(const std::string& prefix, Tensors& out) const;

  Tensors parameters_, buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
  bool training_ = true;
};

// A shared module that is called like a function. Copies are handles on the
// same module.
template <class Impl>
class Holder {
 public:
  template <class... A>
  requires std::constructible_from<Impl, A...> Holder(A&&... arguments)
      : impl_(std::make_shared<Impl>(std::forward<A>(arguments)...)) {}
  Holder(std::nullptr_t) {}
  Holder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Holder(const Holder&) = default;
  Holder(Holder& o) : impl_(o.impl_) {}
  Holder(Holder&&) = default;
  Holder& operator=(const Holder&) = default;
  Holder& operator=(Holder&&) = default;

  Impl* operator->() const { return impl_.get(); }
  Impl& operator*() const { return *impl_; }
  explicit operator bool() const { return bool(impl_); }
  const std::shared_ptr<Impl>& ptr() const { return impl_; }
  template <class... A>
  auto operator()(A&&... arguments) const {
    return impl_->forward(std::forward<A>(arguments)...);
  }

 private:
  std::shared_ptr<Impl> impl_;
};

// A module's state dict in torch's file format, and back.
FL_API void save(const Module& module, const std::string& path);
FL_API void load(Module& module, const std::string& path);
template <class Impl>
void save(const Holder<Impl>& module, const std::string& path) {
  save(*module, path);
}
template <class Impl>
void load(const Holder<Impl>& module, const std::string& path) {
  load(*module, path);
}

}  // namespace flambeau::nn
