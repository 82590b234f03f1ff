#pragma once

#include <stddef.h>
#include <string.h>

#include "pgmspace.h"

// A literal that AVR keeps in flash; here its type alone differs.
class __FlashStringHelper;
#define F(literal) (reinterpret_cast<const __FlashStringHelper*>(PSTR(literal)))

// Text on the heap.  When memory runs out a String becomes invalid: empty, false as a condition.
class String {
 public:
  String(const char* text = "");
  String(const char* text, size_t size);
  String(const __FlashStringHelper* text) : String(reinterpret_cast<const char*>(text)) {}
  String(const String& other);
  String(String&& other) noexcept;
  explicit String(char value);
  explicit String(unsigned char value, unsigned char base = 10);
  explicit String(int value, unsigned char base = 10);
  explicit String(unsigned int value, unsigned char base = 10);
  explicit String(long value, unsigned char base = 10);
  explicit String(unsigned long value, unsigned char base = 10);
  explicit String(long long value, unsigned char base = 10);
  explicit String(unsigned long long value, unsigned char base = 10);
  // Padded to at least decimals + 2 characters, as Arduino pads: String(5.0, 0) is " 5".
  explicit String(float value, unsigned char decimals = 2);
  explicit String(double value, unsigned char decimals = 2);
  ~String();

  String& operator=(const String& other);
  String& operator=(String&& other) noexcept;
  String& operator=(const char* text);

  explicit operator bool() const { return text_ != nullptr; }
  const char* c_str() const { return text_ == nullptr ? "" : text_; }
  size_t length() const { return length_; }
  bool isEmpty() const { return length_ == 0; }
  bool reserve(size_t size);

  bool concat(const char* text, size_t size);
  bool concat(const char* text) { return text != nullptr && concat(text, strlen(text)); }
  bool concat(const String& other) { return concat(other.c_str(), other.length()); }
  bool concat(char value) { return concat(&value, 1); }
  template <typename T>
  bool concat(T value) {
    return concat(String(value));
  }
  template <typename T>
  String& operator+=(const T& value) {
    concat(value);
    return *this;
  }

  int compareTo(const String& other) const { return strcmp(c_str(), other.c_str()); }
  bool equals(const String& other) const {
    return length_ == other.length_ && compareTo(other) == 0;
  }
  bool equals(const char* text) const { return strcmp(c_str(), text == nullptr ? "" : text) == 0; }
  bool equalsIgnoreCase(const String& other) const;
  bool startsWith(const String& prefix) const { return startsWith(prefix, 0); }
  bool startsWith(const String& prefix, size_t offset) const;
  bool endsWith(const String& suffix) const;

  char charAt(size_t index) const { return index < length_ ? text_[index] : '\0'; }
  void setCharAt(size_t index, char value);
  char operator[](size_t index) const { return charAt(index); }
  char& operator[](size_t index);
  void toCharArray(char* buffer, size_t size, size_t from = 0) const;
  void getBytes(unsigned char* buffer, size_t size, size_t from = 0) const {
    toCharArray(reinterpret_cast<char*>(buffer), size, from);
  }
  const char* begin() const { return c_str(); }
  const char* end() const { return c_str() + length_; }

  // -1 when there is none.
  int indexOf(char value, size_t from = 0) const;
  int indexOf(const String& text, size_t from = 0) const;
  int lastIndexOf(char value) const { return last_index_of(&value, 1, length_); }
  int lastIndexOf(char value, size_t from) const { return last_index_of(&value, 1, from); }
  int lastIndexOf(const String& text) const { return lastIndexOf(text, length_); }
  int lastIndexOf(const String& text, size_t from) const {
    return last_index_of(text.c_str(), text.length(), from);
  }
  String substring(size_t from) const { return substring(from, length_); }
  // The order of the two ends does not matter; what lies beyond the text is left out.
  String substring(size_t from, size_t to) const;

  void replace(char from, char to);
  void replace(const String& from, const String& to);
  void remove(size_t index) { remove(index, length_); }
  void remove(size_t index, size_t count);
  void toLowerCase();
  void toUpperCase();
  void trim();

  long toInt() const;
  float toFloat() const { return static_cast<float>(toDouble()); }
  double toDouble() const;

 private:
  int last_index_of(const char* text, size_t size, size_t from) const;
  void invalidate();

  char* text_ = nullptr;
  size_t length_ = 0;
  size_t capacity_ = 0;
};

inline String operator+(String left, const String& right) {
  left.concat(right);
  return left;
}
inline String operator+(String left, const char* right) {
  left.concat(right);
  return left;
}
template <typename T>
String operator+(String left, T right) {
  left.concat(right);
  return left;
}
inline bool operator==(const String& a, const String& b) { return a.equals(b); }
inline bool operator==(const String& a, const char* b) { return a.equals(b); }
inline bool operator==(const char* a, const String& b) { return b.equals(a); }
inline bool operator!=(const String& a, const String& b) { return !a.equals(b); }
inline bool operator!=(const String& a, const char* b) { return !a.equals(b); }
inline bool operator!=(const char* a, const String& b) { return !b.equals(a); }
inline bool operator<(const String& a, const String& b) { return a.compareTo(b) < 0; }
inline bool operator>(const String& a, const String& b) { return a.compareTo(b) > 0; }
inline bool operator<=(const String& a, const String& b) { return a.compareTo(b) <= 0; }
inline bool operator>=(const String& a, const String& b) { return a.compareTo(b) >= 0; }
