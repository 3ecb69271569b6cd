// Walking a tree of modules.
#include "flambeau/nn/module.h"

#include <algorithm>
#include <set>

#include "flambeau/generated/ops.h"
#include "flambeau/tape/meta.h"

namespace flambeau::nn {
namespace {

const Tensor* find(const StateDict& list, const std::string& name) {
  auto at = std::find_if(list.begin(), list.end(), [&](auto& item) { return item.first == name; });
  return at == list.end() ? nullptr : &at->second;
}

// Puts the converted value behind the handles that users hold.
template <class T>
void convert(const Tensor& t, T to) {
  NoGradGuard no_grad;
  set_data(t, ops::to(t, to));
  if (t->meta && t->meta->grad.defined()) t->meta->grad = ops::to(t->meta->grad, to);
}

}  // namespace

Tensor Module::forward(const Tensor&) {
  fail<NotImplementedError>("Module: forward(input) is not defined by this module");
}

void Module::check_name(const std::string& name) const {
  FL_CHECK(!name.empty() && name.find('.') == std::string::npos, ValueError,
           "Module: a name must not be empty or hold a dot, got '{}'", name);
  bool module =
      std::any_of(modules_.begin(), modules_.end(), [&](auto& item) { return item.first == name; });
  FL_CHECK(!module && !find(parameters_, name) && !find(buffers_, name), ValueError,
           "Module: the name '{}' is taken", name);
}

Tensor Module::register_parameter(std::string name, Tensor value, bool requires_grad) {
  check_name(name);
  if (!value.defined()) return value;
  FL_CHECK(!value->grad_fn, ValueError,
           "Module: parameter {} must be a leaf, not the result of an op", name);
  value.set_requires_grad(requires_grad);
  parameters_.emplace_back(std::move(name), value);
  return value;
}

Tensor Module::register_buffer(std::string name, Tensor value) {
  check_name(name);
  if (value.defined()) buffers_.emplace_back(std::move(name), value);
  return value;
}

void Module::add_module(std::string name, std::shared_ptr<Module> module) {
  check_name(name);
  FL_CHECK(module, ValueError, "Module: module {} is null", name);
  modules_.emplace_back(std::move(name), std::move(module));
}

void Module::collect(Tensors Module::*kind, const std::string& prefix, Tensors& out) const {
  for (const auto& [name, tensor] : this->*kind) {
    bool known =
        std::any_of(out.begin(), out.end(), [&](auto& item) { return item.second.is(tensor); });
    if (!known) out.emplace_back(prefix + name, tensor);
  }
  for (const auto& [name, module] : modules_) module->collect(kind, prefix + name + ".", out);
}

void Module::collect_state(const std::string& prefix, Tensors& out) const {
  for (const Tensors* list : {&parameters_, &buffers_})
    for (const auto& [name, tensor] : *list) out.emplace_back(prefix + name, tensor);
  for (const auto& [name, module] : modules_) module->collect_state(prefix + name + ".", out);
}

StateDict Module::named_parameters() const {
  StateDict found;
  collect(&Module::parameters_, "", found);
  return found;
}

StateDict Module::named_buffers() const {
  StateDict found;
  collect(&Module::buffers_, "", found);
  return found;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> found;
  for (auto& [name, tensor] : named_parameters()) found.push_back(tensor);
  return found;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, module] : modules_) module->train(on);
}

void Module::zero_grad() {
  for (const Tensor& p : parameters())
    if (p->meta) p->meta->grad = Tensor();
}

void Module::to(DType dtype) {
  FL_CHECK(is_inexact(dtype), TypeError, "Module: to takes a floating dtype, got {}", dtype);
  for (const StateDict& list : {named_parameters(), named_buffers()})
    for (const auto& [name, tensor] : list)
      if (is_inexact(tensor.dtype())) convert(tensor, dtype);
}

void Module::to(Device device) {
  for (const StateDict& list : {named_parameters(), named_buffers()})
    for (const auto& [name, tensor] : list) convert(tensor, device);
}

StateDict Module::state_dict() const {
  StateDict found;
  collect_state("", found);
  for (auto& [name, tensor] : found) tensor = ops::detach(tensor);
  return found;
}

void Module::load_state_dict(const StateDict& state, bool strict) {
  StateDict own;
  collect_state("", own);
  std::string problems;
  for (const auto& [name, tensor] : own)
    if (!find(state, name)) problems += " missing " + name + ";";
  for (const auto& [name, tensor] : state)
    if (!find(own, name)) problems += " unexpected " + name + ";";
  FL_CHECK(!strict || problems.empty(), RuntimeError,
           "load_state_dict: the names differ from the module's:{}", problems);
  NoGradGuard no_grad;
  for (auto& [name, tensor] : own) {
    const Tensor* value = find(state, name);
    if (!value) continue;
    FL_CHECK(value->sizes() == tensor.sizes(), RuntimeError,
             "load_state_dict: {} has shape {} here and {} there", name, tensor.sizes(),
             value->sizes());
    ops::copy_(tensor, *value);
  }
}

void save(const Module& module, const std::string& path) {
  serialize::save(module.state_dict(), path);
}

void load(Module& module, const std::string& path) {
  module.load_state_dict(serialize::load(path));
}

}  // namespace flambeau::nn
