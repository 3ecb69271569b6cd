// The operations of the pickle machine.
#include "flambeau/serialize/unpickler.h"

#include <bit>
#include <cstring>

namespace flambeau::serialize {

void Unpickler::damaged(const std::string& what) const {
  fail<RuntimeError>("load: damaged pickle near byte {}: {}", at_, what);
}

std::string_view Unpickler::take(uint64_t count) {
  if (count > bytes_.size() - at_) damaged("it ends too early");
  std::string_view found = bytes_.substr(at_, count);
  at_ += count;
  return found;
}

template <class T>
T Unpickler::number() {
  T value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string Unpickler::line() {
  size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) damaged("a line has no end");
  std::string found(bytes_.substr(at_, end - at_));
  at_ = end + 1;
  return found;
}

void Unpickler::push(Object o) { stack_.push_back(std::make_shared<Object>(std::move(o))); }

ObjectPtr Unpickler::top() const {
  if (stack_.empty() || std::holds_alternative<Mark>(stack_.back()->value))
    damaged("an object is missing");
  return stack_.back();
}

ObjectPtr Unpickler::pop() {
  ObjectPtr found = top();
  stack_.pop_back();
  return found;
}

std::vector<ObjectPtr> Unpickler::pop_mark() {
  size_t at = stack_.size();
  while (at > 0 && !std::holds_alternative<Mark>(stack_[at - 1]->value)) at--;
  if (at == 0) damaged("there is no mark to go back to");
  std::vector<ObjectPtr> items(stack_.begin() + int64_t(at), stack_.end());
  stack_.resize(at - 1);
  return items;
}

ObjectPtr Unpickler::load() {
  while (step(number<uint8_t>())) {
  }
  ObjectPtr result = pop();
  if (!stack_.empty()) damaged("objects are left over");
  return result;
}

bool Unpickler::step(uint8_t code) {
  if (code == '.') return false;
  if (simple_value(code) || container(code) || memo(code)) return true;
  switch (code) {
    case 0x80:  // PROTO
      if (number<uint8_t>() > 5) damaged("its protocol is not known");
      return true;
    case 0x95:  // FRAME
      take(8);
      return true;
    case '(':
      push({Mark{}});
      return true;
    case '0':
      pop();
      return true;
    case 'R':
      reduce();
      return true;
    case 'Q':
      persistent();
      return true;
    case 'b': {  // BUILD: the attributes of an OrderedDict, of which there is
                 // nothing to keep
      pop();
      expect<Dict>(top(), "an object with attributes");
      return true;
    }
  }
  damaged("operation " + std::to_string(code) + " has no place in a state dict");
}

bool Unpickler::simple_value(uint8_t code) {
  switch (code) {
    case 'N':
      push({None{}});
      return true;
    case 0x88:
    case 0x89:
      push({code == 0x88});
      return true;
    case 'K':
      push({int64_t(number<uint8_t>())});
      return true;
    case 'M':
      push({int64_t(number<uint16_t>())});
      return true;
    case 'J':
      push({int64_t(number<int32_t>())});
      return true;
    case 0x8a: {  // LONG1
      std::string_view digits = take(number<uint8_t>());
      if (digits.size() > 8) damaged("a number is too large");
      int64_t value = !digits.empty() && digits.back() < 0 ? -1 : 0;
      std::memcpy(&value, digits.data(), digits.size());
      push({value});
      return true;
    }
    case 'G':
      push({std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()))});
      return true;
    case 'X':
      push({std::string(take(number<uint32_t>()))});
      return true;
    case 0x8c:
      push({std::string(take(number<uint8_t>()))});
      return true;
    case 'c': {
      std::string module = line();
      push({Global{module + "." + line()}});
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      ObjectPtr name = pop(), module = pop();
      push({Global{expect<std::string>(module, "a module") + "." +
                   expect<std::string>(name, "a name")}});
      return true;
    }
  }
  return false;
}

bool Unpickler::container(uint8_t code) {
  switch (code) {
    case '}':
      push({Dict{}});
      return true;
    case ']':
    case ')':
      push({Sequence{}});
      return true;
    case 't':
      push({Sequence{pop_mark()}});
      return true;
    case 0x85:
    case 0x86:
    case 0x87: {  // tuples of one, two, three
      Sequence tuple;
      tuple.items.resize(code - 0x84u);
      for (size_t i = tuple.items.size(); i-- > 0;) tuple.items[i] = pop();
      push({tuple});
      return true;
    }
    case 's': {
      ObjectPtr value = pop(), key = pop();
      set_items({key, value});
      return true;
    }
    case 'u':
      set_items(pop_mark());
      return true;
    case 'a':
    case 'e': {
      std::vector<ObjectPtr> items = code == 'a' ? std::vector{pop()} : pop_mark();
      auto* list = std::get_if<Sequence>(&top()->value);
      if (!list) damaged("items for what is no list");
      list->items.insert(list->items.end(), items.begin(), items.end());
      return true;
    }
  }
  return false;
}

void Unpickler::set_items(std::vector<ObjectPtr> items) {
  auto* dict = std::get_if<Dict>(&top()->value);
  if (!dict || items.size() % 2) damaged("items for what is no dict");
  for (size_t i = 0; i < items.size(); i += 2) dict->items.push_back({items[i], items[i + 1]});
}

bool Unpickler::memo(uint8_t code) {
  if (code == 'q' || code == 'r') {
    uint64_t key = code == 'q' ? number<uint8_t>() : number<uint32_t>();
    memo_[key] = top();
  } else if (code == 0x94) {  // MEMOIZE
    memo_[memo_.size()] = top();
  } else if (code == 'h' || code == 'j') {
    auto found = memo_.find(code == 'h' ? number<uint8_t>() : number<uint32_t>());
    if (found == memo_.end()) damaged("nothing is stored under a number");
    stack_.push_back(found->second);
  } else {
    return false;
  }
  return true;
}

void Unpickler::persistent() {
  ObjectPtr id = pop();
  const auto& fields = expect<Sequence>(id, "a persistent id").items;
  if (fields.size() != 5) damaged("a persistent id has five fields");
  push({find_(expect<Global>(fields[1], "a storage's type"),
              expect<std::string>(fields[2], "a storage's key"),
              expect<int64_t>(fields[4], "a storage's size"))});
}

void Unpickler::reduce() {
  ObjectPtr args = pop(), function = pop();
  const std::string& name = expect<Global>(function, "a function").name;
  const Sequence& given = expect<Sequence>(args, "arguments");
  if (name == "collections.OrderedDict" && given.items.empty()) return push({Dict{}});
  if (name == "torch._utils._rebuild_tensor_v2" && given.items.size() >= 5)
    return push({rebuilt(given)});
  if (name == "torch._utils._rebuild_parameter" && given.items.size() >= 1)
    return push({expect<Tensor>(given.items[0], "a parameter's data")});
  fail<RuntimeError>("load: the file calls {}, which a dict of tensors does not need", name);
}

namespace {

Ints ints_of(const ObjectPtr& o, const char* what) {
  Ints found;
  for (const ObjectPtr& item : expect<Sequence>(o, what).items)
    found.push_back(expect<int64_t>(item, what));
  return found;
}

}  // namespace

Tensor Unpickler::rebuilt(const Sequence& args) {
  const Memory& memory = expect<Memory>(args.items[0], "a tensor's storage");
  int64_t offset = expect<int64_t>(args.items[1], "an offset");
  Ints sizes = ints_of(args.items[2], "a shape"), strides = ints_of(args.items[3], "strides");
  if (sizes.size() != strides.size() || sizes.size() > kMaxDims) damaged("a shape without strides");
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] < 0 || strides[i] < 0) damaged("a negative size");
    int64_t step;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      damaged("a shape is too large");
  }
  int64_t room = int64_t(memory.storage->bytes) / itemsize(memory.dtype);
  if (offset < 0 || (numel_of(sizes) > 0 && last >= room))
    damaged("a tensor lies outside of its storage");
  return from_storage(memory.storage, sizes, strides, offset, memory.dtype);
}

}  // namespace flambeau::serialize
