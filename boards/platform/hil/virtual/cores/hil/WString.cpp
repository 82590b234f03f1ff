#include "WString.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include <new>
#include <utility>

#include "Print.h"

namespace {

// A Print into a String, so that numbers are written by one piece of code only.
class StringSink : public Print {
 public:
  explicit StringSink(String& target) : target_(target) {}
  size_t write(uint8_t value) override { return target_.concat(static_cast<char>(value)) ? 1 : 0; }
  using Print::write;

 private:
  String& target_;
};

// itoa's digits are lower case where print's are upper case.
template <typename T>
void append_number(String& target, T value, unsigned char base) {
  StringSink sink(target);
  sink.print(value, base < 2 || base > 36 ? DEC : base);
  target.toLowerCase();
}

void append_decimal(String& target, double value, unsigned char decimals) {
  const int width = decimals + 2;
  const int size = snprintf(nullptr, 0, "%*.*f", width, decimals, value);
  char* text = size < 0 ? nullptr : static_cast<char*>(malloc(static_cast<size_t>(size) + 1));
  if (text != nullptr) {
    snprintf(text, static_cast<size_t>(size) + 1, "%*.*f", width, decimals, value);
    target.concat(text, static_cast<size_t>(size));
    free(text);
  }
}

}  // namespace

String::String(const char* text) {
  if (text != nullptr) {
    concat(text, strlen(text));
  }
}
String::String(const char* text, size_t size) { concat(text, size); }
String::String(const String& other) {
  if (other) {
    concat(other.c_str(), other.length());
  }
}
String::String(String&& other) noexcept { *this = std::move(other); }
String::String(char value) { concat(&value, 1); }
String::String(unsigned char value, unsigned char base) { append_number(*this, value, base); }
String::String(int value, unsigned char base) { append_number(*this, value, base); }
String::String(unsigned int value, unsigned char base) { append_number(*this, value, base); }
String::String(long value, unsigned char base) { append_number(*this, value, base); }
String::String(unsigned long value, unsigned char base) { append_number(*this, value, base); }
String::String(long long value, unsigned char base) { append_number(*this, value, base); }
String::String(unsigned long long value, unsigned char base) { append_number(*this, value, base); }
String::String(float value, unsigned char decimals) {
  append_decimal(*this, static_cast<double>(value), decimals);
}
String::String(double value, unsigned char decimals) { append_decimal(*this, value, decimals); }
String::~String() { free(text_); }

String& String::operator=(const String& other) {
  if (this == &other) {
    return *this;
  }
  if (!other) {
    invalidate();
    return *this;
  }
  length_ = 0;
  concat(other.c_str(), other.length());
  return *this;
}

String& String::operator=(String&& other) noexcept {
  if (this != &other) {
    free(text_);
    text_ = std::exchange(other.text_, nullptr);
    length_ = std::exchange(other.length_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
  }
  return *this;
}

String& String::operator=(const char* text) {
  if (text == nullptr) {
    invalidate();
  } else {
    *this = String(text);
  }
  return *this;
}

void String::invalidate() {
  free(text_);
  text_ = nullptr;
  length_ = capacity_ = 0;
}

bool String::reserve(size_t size) {
  if (text_ != nullptr && capacity_ >= size) {
    return true;
  }
  char* const grown = static_cast<char*>(realloc(text_, size + 1));
  if (grown == nullptr) {
    return false;
  }
  if (text_ == nullptr) {
    grown[0] = '\0';
  }
  text_ = grown;
  capacity_ = size;
  return true;
}

bool String::concat(const char* text, size_t size) {
  if (text == nullptr) {
    return false;
  }
  // A part of this very text would move when the buffer grows.
  const bool own = text_ != nullptr && text >= text_ && text <= text_ + length_;
  const size_t offset = own ? static_cast<size_t>(text - text_) : 0;
  if (!reserve(length_ + size)) {
    return false;
  }
  memmove(text_ + length_, own ? text_ + offset : text, size);
  length_ += size;
  text_[length_] = '\0';
  return true;
}

bool String::equalsIgnoreCase(const String& other) const {
  if (length_ != other.length_) {
    return false;
  }
  for (size_t i = 0; i < length_; ++i) {
    if (tolower(static_cast<unsigned char>(text_[i])) !=
        tolower(static_cast<unsigned char>(other.text_[i]))) {
      return false;
    }
  }
  return true;
}

bool String::startsWith(const String& prefix, size_t offset) const {
  return offset <= length_ && prefix.length_ <= length_ - offset &&
         memcmp(c_str() + offset, prefix.c_str(), prefix.length_) == 0;
}

bool String::endsWith(const String& suffix) const {
  return suffix.length_ <= length_ && startsWith(suffix, length_ - suffix.length_);
}

void String::setCharAt(size_t index, char value) {
  if (index < length_) {
    text_[index] = value;
  }
}

char& String::operator[](size_t index) {
  // A place to write to that is nobody's text.
  static char outside;
  if (index >= length_) {
    outside = '\0';
    return outside;
  }
  return text_[index];
}

void String::toCharArray(char* buffer, size_t size, size_t from) const {
  if (buffer == nullptr || size == 0) {
    return;
  }
  size_t count = from < length_ ? length_ - from : 0;
  if (count > size - 1) {
    count = size - 1;
  }
  memcpy(buffer, c_str() + (count == 0 ? 0 : from), count);
  buffer[count] = '\0';
}

int String::indexOf(char value, size_t from) const {
  if (from >= length_) {
    return -1;
  }
  const void* found = memchr(text_ + from, value, length_ - from);
  return found == nullptr ? -1 : static_cast<int>(static_cast<const char*>(found) - text_);
}

int String::indexOf(const String& text, size_t from) const {
  if (from >= length_) {
    return -1;
  }
  const char* found = strstr(text_ + from, text.c_str());
  return found == nullptr ? -1 : static_cast<int>(found - text_);
}

int String::last_index_of(const char* text, size_t size, size_t from) const {
  if (size == 0 || size > length_) {
    return -1;
  }
  size_t index = from < length_ - size ? from : length_ - size;
  for (;; --index) {
    if (memcmp(text_ + index, text, size) == 0) {
      return static_cast<int>(index);
    }
    if (index == 0) {
      return -1;
    }
  }
}

String String::substring(size_t from, size_t to) const {
  if (from > to) {
    std::swap(from, to);
  }
  if (to > length_) {
    to = length_;
  }
  return from >= to ? String() : String(text_ + from, to - from);
}

void String::replace(char from, char to) {
  for (size_t i = 0; i < length_; ++i) {
    if (text_[i] == from) {
      text_[i] = to;
    }
  }
}

void String::replace(const String& from, const String& to) {
  if (from.isEmpty()) {
    return;
  }
  String result;
  size_t start = 0;
  for (int found = indexOf(from); found >= 0; found = indexOf(from, start)) {
    result.concat(text_ + start, static_cast<size_t>(found) - start);
    result.concat(to);
    start = static_cast<size_t>(found) + from.length();
  }
  result.concat(c_str() + start, length_ - start);
  *this = std::move(result);
}

void String::remove(size_t index, size_t count) {
  if (index >= length_) {
    return;
  }
  if (count > length_ - index) {
    count = length_ - index;
  }
  memmove(text_ + index, text_ + index + count, length_ - index - count + 1);
  length_ -= count;
}

void String::toLowerCase() {
  for (size_t i = 0; i < length_; ++i) {
    text_[i] = static_cast<char>(tolower(static_cast<unsigned char>(text_[i])));
  }
}

void String::toUpperCase() {
  for (size_t i = 0; i < length_; ++i) {
    text_[i] = static_cast<char>(toupper(static_cast<unsigned char>(text_[i])));
  }
}

void String::trim() {
  size_t first = 0;
  size_t last = length_;
  while (first < last && isspace(static_cast<unsigned char>(text_[first]))) {
    ++first;
  }
  while (last > first && isspace(static_cast<unsigned char>(text_[last - 1]))) {
    --last;
  }
  remove(last);
  remove(0, first);
}

long String::toInt() const { return atol(c_str()); }

double String::toDouble() const { return atof(c_str()); }
